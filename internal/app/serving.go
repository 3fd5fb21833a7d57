package app

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/internal/roster"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// drain is how long running requests may take after a stop was asked for.
const drain = 10 * time.Second

// serving is what a process serves for longer than one request.
type serving struct {
	kind   roster.Kind      // under which status finds it
	ln     net.Listener     // nil: nobody connects to it from elsewhere
	event  record.Event     // what its two records have in common, Kind without ".start" and ".stop"
	reload <-chan os.Signal // may be nil
	follow follower         // what the watch keeps in step
	serve  func() error     // returns when all of it has ended
}

// announced serves between two records: that it starts is in the ledger before any request
// can be, that it has stopped when the last one is. Meanwhile status and the other processes
// over the home know of it, and the watch keeps it in step. The listener is closed then, also
// when nothing was served.
func (a *App) announced(ctx context.Context, s serving) error {
	listen := ""
	if s.ln != nil {
		defer func() { _ = s.ln.Close() }()
		listen = s.ln.Addr().String()
		a.listeners.Add(s.ln.Addr())
	}
	a.addState(s.kind, listen)
	defer a.removeState()
	s.event.Principal = a.Operator().ID
	start, stop := s.event, s.event
	start.Kind, stop.Kind = s.event.Kind+".start", s.event.Kind+".stop"
	if a.Locked() != nil {
		start.Fields = maps.Clone(start.Fields)
		start.Fields["vault"] = "locked"
	}
	if err := a.inLedger(context.WithoutCancel(ctx), start); err != nil {
		return err
	}
	defer a.watching(ctx, s.reload, s.follow)()
	err := s.serve()
	stop.Fields = stopFields(ctx, stop.Fields)
	_ = a.told(stop)
	return err
}

// drainable is a server that ends what has begun before it stops.
type drainable interface {
	Serve(ln net.Listener) error
	Shutdown(ctx context.Context) error
}

// drained serves until ctx ends, or nothing can come any more, and then what has begun, for
// no longer than patience.
func drained(ctx context.Context, patience time.Duration, s drainable, ln net.Listener) error {
	var served error
	done := make(chan struct{})
	go func() {
		defer close(done)
		served = s.Serve(ln)
	}()
	select {
	case <-done: // what listens has failed, or has gone with the program of an isolated run
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	ended := s.Shutdown(stopping)
	<-done
	for _, err := range []error{served, ended} {
		if !isEnd(err) {
			return err
		}
	}
	return nil
}

// isEnd reports whether a server ended so because it was to.
func isEnd(err error) bool {
	return err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) || errors.Is(err, context.DeadlineExceeded)
}

// drainedBeside is drained beside what this process serves, until ctx ends or end is called,
// which waits for it. What becomes of it is nobody's error.
func drainedBeside(ctx context.Context, patience time.Duration, s drainable, ln net.Listener) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = drained(ctx, patience, s, ln)
	}()
	return func() { cancel(); <-ended }
}
