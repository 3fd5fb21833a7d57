package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// dials is a dialer that does as the test says.
type dials func(ctx context.Context) error

func (d dials) Dial(ctx context.Context, _ string, _, _ bool) (net.Conn, string, bool, error) {
	return nil, "", false, d(ctx)
}

// A client that is gone before there is a connection broke off itself: its record blames
// no upstream.
func TestAClientThatLeavesTheDialIsNoFaultOfTheUpstream(t *testing.T) {
	began := make(chan struct{})
	r := newRig(t, func(o *Options, st *stages) {
		throughTunnel(t, o, st, TunnelOptions{Dialer: dials(func(ctx context.Context) error {
			close(began)
			<-ctx.Done()
			return fmt.Errorf("dial: %w", ctx.Err())
		})})
	})
	c := r.dial()
	c.send("CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n\r\n")
	<-began
	_ = c.Close()
	if e := r.outcome().Err; e == nil || e.Code != runtime.CodeCanceled || !errors.Is(e, runtime.ErrNotSent) {
		t.Errorf("recorded %+v", e)
	}
}

// What took too long is told as that, with what to raise.
func TestADialThatTakesTooLongIsATimeout(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		msg, hint string
	}{
		"the dial": {context.DeadlineExceeded, "far.test:443 could not be reached in time", "upstream.dial_timeout"},
		"the kernel's": {
			&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, "far.test:443 could not be reached in time", "upstream.dial_timeout",
		},
		"the name": {&net.DNSError{Err: "i/o timeout", IsTimeout: true}, "the name of far.test:443 could not be resolved in time", "resolver"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *Options, st *stages) {
				throughTunnel(t, o, st, TunnelOptions{Dialer: dials(func(context.Context) error { return fmt.Errorf("dial: %w", c.err) })})
			})
			client := r.dial()
			client.send("CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n\r\n")
			if p := client.refused(504, runtime.CodeTimeout); p.Detail != c.msg || !strings.Contains(p.Hint, c.hint) {
				t.Errorf("%q, %q", p.Detail, p.Hint)
			}
			if e := r.outcome().Err; e == nil || !errors.Is(e, runtime.ErrNotSent) || e.Reason != "" {
				t.Errorf("recorded %+v", e)
			}
		})
	}
}
