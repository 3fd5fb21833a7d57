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
	done := make(chan error, 1)
	go func() {
		_, err := a.Run(context.Background(), app.RunOptions{
			Command: []string{"/bin/sh", "-c", "read line"}, Agent: "sleeper", NoCover: true,
			Stdin: stdin, Stdout: io.Discard, Stderr: io.Discard, Say: func(string) {}, Bare: func() {},
		})
		done <- err
	}()
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
