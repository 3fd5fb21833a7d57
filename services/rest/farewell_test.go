package rest_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
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

// Who ends an upgraded connection from outside waits for nobody either: a change of the
// settings would be held up by every program, and upstream, that reads nothing.
func TestTheEndOfAnUpgradeWaitsForNobody(t *testing.T) {
	ends, d := make(chan func(), 1), newStuffing()
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) {
		o.Dialer = d
		o.Hold = func(_, _ string, _, _ bool, end func()) func() {
			ends <- end
			return func() {}
		}
	})
	near, far := pipe(t)
	slow := &slowToClose{Conn: far, may: make(chan struct{})}
	out := &runtimetest.Responder{Conn: func() (net.Conn, error) { return slow, nil }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = r.backend.Execute(context.Background(), r.call("GET", "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-Websocket-Key: a2V5"), out)
	}()
	_, _ = io.WriteString(near, "ping")
	if _, err := io.ReadFull(near, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	d.stuffed.Store(true)
	ended := make(chan struct{})
	go func() { (<-ends)(); close(ended) }()
	select {
	case <-ended:
		<-d.ends
	case <-time.After(10 * time.Second):
		t.Error("it waits for the goodbye to the caller")
	}
	if n := d.waits.Load(); n != 0 {
		t.Errorf("%d writes to the upstream waited", n)
	}
	close(slow.may)
	<-done
}

// slowToClose is a connection that says goodbye to somebody who reads nothing.
type slowToClose struct {
	net.Conn
	may chan struct{}
}

func (c *slowToClose) Close() error {
	<-c.may
	return c.Conn.Close()
}
