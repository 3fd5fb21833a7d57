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

// sleeper is a run that waits for its stdin, over a home whose clock a test moves.
type sleeper struct {
	ahead atomic.Int64
	seen  *app.App // another look at the home
	first app.Token
	end   func() // ends the program and waits for it
}

// begin starts the run and waits until its token is looked after.
func (s *sleeper) begin(t *testing.T, run func(o app.RunOptions) error) {
	t.Helper()
	stdin, end := io.Pipe()
	out, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(app.RunOptions{
			Command: []string{"/bin/sh", "-c", "echo up; read line"}, Agent: "sleeper", NoCover: true,
			Stdin: stdin, Stdout: stdout, Stderr: io.Discard, Say: func(string) {}, Bare: func() {},
		})
		_ = stdout.Close()
		done <- err
	}()
	s.end = func() {
		t.Helper()
		_ = end.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	apptest.Eventually(t, "the token of the run", func() bool { var ok bool; s.first, ok = tokenOfRun(t, s.seen); return ok })
	if life := s.first.Expires.Sub(s.first.Created); life <= 0 || life > time.Hour {
		t.Errorf("without its kimbap it is good for %s", life)
	}
}

func (s *sleeper) clock() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

// sleep moves the clock, and demands that the token lives on.
func (s *sleeper) sleep(t *testing.T, slept time.Duration) {
	t.Helper()
	before, _ := tokenOfRun(t, s.seen)
	s.ahead.Add(int64(slept))
	apptest.Eventually(t, "a longer life after "+slept.String(), func() bool {
		now, _ := tokenOfRun(t, s.seen)
		return now.ID == s.first.ID && now.Expires.After(before.Expires) && now.Expires.After(s.clock())
	})
}

// over ends the run, and demands that its token is revoked.
func (s *sleeper) over(t *testing.T) {
	t.Helper()
	s.end()
	if last, _ := tokenOfRun(t, s.seen); last.ID != s.first.ID || last.Revoked.IsZero() {
		t.Errorf("after the end: %+v", last)
	}
}

// The token of a run ends within the hour when nobody looks after it, as after a
// kill; while the run lives it does not end, however long it and the machine sleep;
// and the end of the run revokes it.
func TestTheTokenOfARunLivesAsLongAsTheRun(t *testing.T) {
	t.Parallel()
	var s sleeper
	k := apptest.New(t, apptest.Options{Clock: s.clock})
	a := k.Open(t, "run")
	s.seen = k.Open(t, "")
	s.begin(t, func(o app.RunOptions) error {
		_, err := a.Run(context.Background(), o)
		return err
	})
	s.sleep(t, 45*time.Minute)
	s.sleep(t, 72*time.Hour)
	s.over(t)
}

// The same of a run at a server that goes by a name: its token is the server's, and is
// prolonged and revoked there.
func TestTheTokenOfANamedRunLivesAsLongAsTheRun(t *testing.T) {
	t.Parallel()
	var s sleeper
	k := apptest.New(t, apptest.Options{Clock: s.clock})
	base := k.ServeAPI(t, app.APIOptions{Proxy: true})
	chief, _ := tokenOf(t, k, app.TokenGrant{Agent: "chief", Roles: []string{"kimbap.operator"}, TTL: 24 * time.Hour})
	a := k.Open(t, "")
	s.seen = k.Open(t, "")
	s.begin(t, func(o app.RunOptions) error {
		_, err := a.Here().Run(context.Background(), app.ConnectedOptions{Run: o, There: lentTo(t, base, chief, nil)})
		return err
	})
	if s.first.Agent != "sleeper" {
		t.Errorf("its token is of %s", s.first.Agent)
	}
	s.sleep(t, 5*time.Hour)
	s.over(t)
}
