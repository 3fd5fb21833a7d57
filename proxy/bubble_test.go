package proxy

import (
	"net"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// newBubbledRig is a rig without sockets, for a bubble of testing/synctest: its clock goes on
// only when all wait, however busy the machine is. What is written waits until it is read.
func newBubbledRig(t *testing.T, change func(*Options, *stages)) *rig {
	t.Helper()
	ln := runtimetest.NewPipes()
	reach := func() (net.Conn, error) { return ln.Reach(func(c net.Conn) net.Conn { return piped{c} }) }
	return newRigOn(t, ln, reach, func(o *Options, st *stages) {
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

// piped is a connection that has addresses as others have.
type piped struct{ net.Conn }

func (piped) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (piped) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2} }
