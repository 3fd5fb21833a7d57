package runtimetest

import (
	"net"
	"sync"
)

// Pipes is a listener in memory, for bubbles of testing/synctest: whoever waits for a socket
// keeps their clock from going on. It is safe for concurrent use.
type Pipes struct {
	came   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// NewPipes returns a listener that nobody has reached yet.
func NewPipes() *Pipes { return &Pipes{came: make(chan net.Conn), closed: make(chan struct{})} }

// Reach opens a connection as soon as it is accepted, as what as makes of its other end. What is
// written to a pipe waits until it is read.
func (p *Pipes) Reach(as func(net.Conn) net.Conn) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.came <- as(far):
		return near, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Accept implements [net.Listener].
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.came:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements [net.Listener].
func (*Pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
