package proxy

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// newBubbledRig is a rig without sockets, for a bubble of testing/synctest: its clock goes on
// only when all wait, however busy the machine is. What is written waits until it is read.
func newBubbledRig(t *testing.T, change func(*Options, *stages)) *rig {
	t.Helper()
	ln := &pipes{came: make(chan net.Conn), closed: make(chan struct{})}
	return newRigOn(t, ln, ln.reach, func(o *Options, st *stages) {
		o.Peer = func(net.Conn) runtime.Peer { return runtime.Peer{Owner: true} }
		change(o, st)
	})
}

// soon returns what comes of ended in the time that a test has.
func soon(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("it does not end")
		return nil
	}
}

// pipes is a listener in memory.
type pipes struct {
	came   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) reach() (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.came <- piped{far}:
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements [net.Listener].
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.came:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*pipes) Addr() net.Addr { return piped{}.LocalAddr() }

// piped is a connection that has addresses as others have.
type piped struct{ net.Conn }

func (piped) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (piped) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
