//go:build unix

package app_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// The token of a run ends within the hour when nobody looks after it, as after a
// kill; while the run lives it does not end, however long it and the machine sleep;
// and the end of the run revokes it.
func TestTheTokenOfARunLivesAsLongAsTheRun(t *testing.T) {
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	a, seen := k.Open(t, "run"), k.Open(t, "")
	stdin, end := io.Pipe()
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := a.Run(context.Background(), app.RunOptions{
			Command: []string{"/bin/sh", "-c", "echo up; read line"}, Agent: "sleeper", NoCover: true,
			Stdin: stdin, Stdout: stdout, Stderr: io.Discard, Say: func(string) {}, Bare: func() {},
		})
		_ = stdout.Close()
		done <- err
	}()
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil { // its token is looked after by now
		t.Fatal(err)
	}
	var first app.Token
	apptest.Eventually(t, "the token of the run", func() bool { var ok bool; first, ok = tokenOfRun(t, seen); return ok })
	if life := first.Expires.Sub(first.Created); life <= 0 || life > time.Hour {
		t.Errorf("without its kimbap it is good for %s", life)
	}
	for _, slept := range []time.Duration{45 * time.Minute, 72 * time.Hour} {
		before, _ := tokenOfRun(t, seen)
		ahead.Add(int64(slept))
		apptest.Eventually(t, "a longer life after "+slept.String(), func() bool {
			now, _ := tokenOfRun(t, seen)
			return now.ID == first.ID && now.Expires.After(before.Expires) && now.Expires.After(time.Now().Add(time.Duration(ahead.Load())))
		})
	}
	_ = end.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if last, _ := tokenOfRun(t, seen); last.ID != first.ID || last.Revoked.IsZero() {
		t.Errorf("after the end: %+v", last)
	}
}

// The same of a run at a server that goes by a name: its token is the server's, and is
// prolonged and revoked there.
func TestTheTokenOfANamedRunLivesAsLongAsTheRun(t *testing.T) {
	var ahead atomic.Int64
	k := apptest.New(t, apptest.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	chief, _ := tokenOf(t, k, app.TokenGrant{Agent: "chief", Roles: []string{"kimbap.operator"}, TTL: 24 * time.Hour})
	a, seen := k.Open(t, ""), k.Open(t, "")
	stdin, end := io.Pipe()
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		o := app.ConnectedOptions{There: lentTo(t, base, chief, nil)}
		o.Command, o.Agent, o.NoCover = []string{"/bin/sh", "-c", "echo up; read line"}, "sleeper", true
		o.Stdin, o.Stdout, o.Stderr, o.Say, o.Bare = stdin, stdout, io.Discard, func(string) {}, func() {}
		_, err := a.RunConnected(context.Background(), o)
		_ = stdout.Close()
		done <- err
	}()
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil { // its token is looked after by now
		t.Fatal(err)
	}
	var first app.Token
	apptest.Eventually(t, "the token of the run", func() bool { var ok bool; first, ok = tokenOfRun(t, seen); return ok })
	if life := first.Expires.Sub(first.Created); first.Agent != "sleeper" || life <= 0 || life > time.Hour {
		t.Errorf("%s, good for %s", first.Agent, life)
	}
	ahead.Add(int64(5 * time.Hour))
	apptest.Eventually(t, "a longer life", func() bool {
		now, _ := tokenOfRun(t, seen)
		return now.ID == first.ID && now.Expires.After(time.Now().Add(time.Duration(ahead.Load())))
	})
	_ = end.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if last, _ := tokenOfRun(t, seen); last.ID != first.ID || last.Revoked.IsZero() {
		t.Errorf("after the end: %+v", last)
	}
}
