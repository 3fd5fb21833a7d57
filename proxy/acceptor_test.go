package proxy

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/rs/zerolog"
)

// When descriptors run out, accepting waits and goes on, and says so once.
func TestDescriptorsRunOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	r := newRig(t, func(o *Options, _ *stages) {
		o.Log = zerolog.New(writerFunc(func(p []byte) (int, error) { said++; return len(p), nil }))
	})
	a := &acceptor{Listener: &exhausted{Listener: ln, left: 3}, s: r.server, closed: make(chan struct{})}
	go func() {
		if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
			_ = c.Close()
		}
	}()
	c, err := a.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if said != 1 {
		t.Errorf("said so %d times", said)
	}
	_ = a.Close()
	if _, err := a.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

// exhausted has no descriptor the first times it is asked.
type exhausted struct {
	net.Listener
	left int
}

func (e *exhausted) Accept() (net.Conn, error) {
	if e.left > 0 {
		e.left--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return e.Listener.Accept()
}
