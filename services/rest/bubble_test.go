package rest_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// bubbled is what has a rig do without sockets, for a bubble of testing/synctest: its clock goes
// on only when all wait, however busy the machine is.
func bubbled(o servicestest.Options) (servicestest.Options, func(*rest.Options)) {
	p := pipes{runtimetest.NewPipes()}
	o.Listener = p
	return o, func(o *rest.Options) { o.Dialer = p }
}

// pipes dials a listener in memory.
type pipes struct{ *runtimetest.Pipes }

// Dial implements [rest.Dialer].
func (p pipes) Dial(context.Context, string, bool, bool) (net.Conn, string, bool, error) {
	near, err := p.Reach(func(c net.Conn) net.Conn { return queued(c) })
	if err != nil {
		return nil, "", false, err
	}
	return queued(near), p.Addr().String(), true, nil
}

// queue is an end of a pipe whose writes do not wait for a reader, as those of a socket.
type queue struct {
	net.Conn
	out    chan []byte
	closed chan struct{}
	once   sync.Once
}

func queued(c net.Conn) *queue {
	q := &queue{Conn: c, out: make(chan []byte, 1000), closed: make(chan struct{})}
	go func() {
		for {
			select {
			case b := <-q.out:
				_, _ = c.Write(b) // to who is gone
			case <-q.closed:
				return
			}
		}
	}()
	return q
}

// Write implements [net.Conn].
func (q *queue) Write(p []byte) (int, error) {
	select {
	case q.out <- bytes.Clone(p):
		return len(p), nil
	case <-q.closed:
		return 0, net.ErrClosed
	}
}

// SetDeadline implements [net.Conn].
func (q *queue) SetDeadline(t time.Time) error { return q.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (*queue) SetWriteDeadline(time.Time) error { return nil }

// Close implements [net.Conn].
func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return q.Conn.Close()
}
