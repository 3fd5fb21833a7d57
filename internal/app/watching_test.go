package app_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// heldLine is a log in which one line is written only once it is let go on.
type heldLine struct {
	line    string
	in, out chan struct{}
}

func (h heldLine) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(h.line)) {
		h.in <- struct{}{}
		<-h.out
	}
	return len(p), nil
}

// What serves ends after its watch: else a reload is recorded, and a file of its state
// written, in the name of a process that has said its last word.
func TestWhatServesEndsAfterItsWatch(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(ctx context.Context, a *app.App, ready func(), reload <-chan os.Signal) error{
		"proxy": func(ctx context.Context, a *app.App, ready func(), reload <-chan os.Signal) error {
			return a.Serve(ctx, app.ServeOptions{Listen: "127.0.0.1:0", State: true, Reload: reload, Ready: func(net.Addr) { ready() }})
		},
		"api": func(ctx context.Context, a *app.App, ready func(), reload <-chan os.Signal) error {
			return a.ServeAPI(ctx, app.APIOptions{Listen: "127.0.0.1:0", Reload: reload, Ready: func(string, string) { ready() }})
		},
		"daemon": func(ctx context.Context, a *app.App, ready func(), reload <-chan os.Signal) error {
			return a.ServeDaemon(ctx, app.DaemonOptions{Reload: reload, Ready: func(string) { ready() }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "kimbap-watch-") // the path of a socket is short
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			log := heldLine{"reloaded configuration, services and policy", make(chan struct{}), make(chan struct{})}
			o := apptest.OptionsOver(filepath.Join(dir, "home"), "serve", &apptest.Buffer{}, true)
			o.Log = zerolog.New(log)
			a, err := app.New(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			reload, done := make(chan os.Signal, 1), make(chan error, 1)
			go func() { done <- serve(ctx, a, func() { reload <- os.Interrupt }, reload) }()
			select {
			case <-log.in:
			case err := <-done:
				t.Fatalf("it ended by itself: %v", err)
			}
			stop()
			var let atomic.Bool
			time.AfterFunc(500*time.Millisecond, func() { let.Store(true); close(log.out) })
			if err := <-done; err != nil || !let.Load() {
				t.Errorf("ended with %v, while its watch read the files: %t", err, !let.Load())
			}
		})
	}
}
