package rest_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// stuffing is a dialer whose connections take nothing more once they are stuffed, as those of
// an upstream that no longer reads. A write there would wait for its deadline: it is counted.
type stuffing struct {
	dialer
	stuffed atomic.Bool
	waits   atomic.Int32
	ends    chan struct{} // one for each connection that was closed
}

func newStuffing() *stuffing { return &stuffing{ends: make(chan struct{}, 64)} }

func (d *stuffing) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	conn, address, private, err := d.dialer.Dial(ctx, authority, trusted, loopback)
	if err != nil {
		return nil, "", false, err
	}
	return &stuffedConn{TCPConn: conn.(*net.TCPConn), of: d}, address, private, nil
}

type stuffedConn struct {
	*net.TCPConn
	of     *stuffing
	closed atomic.Bool
}

func (c *stuffedConn) Write(p []byte) (int, error) {
	if c.of.stuffed.Load() && !c.closed.Load() {
		c.of.waits.Add(1)
		return 0, os.ErrDeadlineExceeded
	}
	return c.TCPConn.Write(p)
}

func (c *stuffedConn) Close() error {
	if !c.closed.Swap(true) {
		c.of.ends <- struct{}{}
	}
	return c.TCPConn.Close()
}

// Whoever closes the connections that no exchange is using waits for no upstream: the
// goodbye of TLS waits for five seconds where nothing is read, for each of them.
func TestClosingWhatNobodyUsesWaitsForNobody(t *testing.T) {
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }
	for name, one := range map[string]struct {
		o     servicestest.Options
		proto string
	}{
		"HTTP/1.1":                        {servicestest.Options{}, "HTTP/1.1"},
		"HTTP/2":                          {handled(100, ok), "HTTP/2.0"},
		"HTTP/2 for a caller of HTTP/1.1": {handled(100, ok), "HTTP/1.1"},
	} {
		for how, drop := range map[string]func(*testing.T, *rig){
			"the end": func(_ *testing.T, r *rig) { r.backend.Close() },
			"a redial": func(t *testing.T, r *rig) {
				if err := r.backend.Redial(rest.Times{}, false); err != nil {
					t.Error(err)
				}
			},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				d := newStuffing()
				r := newRig(t, one.o, func(o *rest.Options) { o.Dialer = d })
				r.proto = one.proto
				r.must(t, pass(r.call("GET", "/a")))
				d.stuffed.Store(true)
				drop(t, r)
				<-d.ends
				if n := d.waits.Load(); n != 0 {
					t.Errorf("%d writes waited", n)
				}
			})
		}
	}
}
