package peer

import (
	"errors"
	"net"
	"os"
	goruntime "runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Java opens IPv6 sockets and connects them to mapped IPv4 addresses; the
// kernel answers with those although it was asked for plain ones.
func TestPeerIsKnownBehindAMappedAddress(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	to := &unix.SockaddrInet6{Port: ln.Addr().(*net.TCPAddr).Port}
	copy(to.Addr[:], net.IPv4(127, 0, 0, 1).To16())
	if err := unix.Connect(fd, to); err != nil {
		t.Fatal(err)
	}
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if p := Of(s); !p.Owner || !p.Known || p.UID != os.Geteuid() {
		t.Errorf("%+v", p)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Fatal("read from a closed connection")
	}
	if p := Of(s); p.Owner || p.Known {
		t.Errorf("after the close: %+v", p)
	}
}

// What a socket was asked before is not taken for the owner of another connection.
func TestAnswerToAnEarlierQuestionIsNone(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from, _ := addrPort(c.LocalAddr())
	to, _ := addrPort(c.RemoteAddr())
	q, err := inquirer()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(q.fd)
	if err := unix.Sendto(q.fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	if _, err := q.ask(diagRequest(from, to)); !errors.Is(err, errNotTheKernel) {
		t.Errorf("an answer that was left over was taken: %v", err)
	}
}

// Connections that come at once are each told apart from the listener's other ones.
func TestPeersAreAskedForAtOnce(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var group sync.WaitGroup
	for range 16 {
		c, err := net.Dial("tcp4", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		group.Go(func() {
			for range 50 {
				if p := Of(s); !p.Owner || p.UID != os.Geteuid() {
					t.Errorf("%+v", p)
				}
			}
		})
	}
	group.Wait()
}

// accepted is one connection of this machine, as who has accepted it sees it.
func accepted(t *testing.T) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	c, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Without a descriptor for the question a socket is waited for that others ask with. Where
// there is none at all the peer is nobody's, and that it was not asked for is said; with
// the next descriptor it is known.
func TestAPeerIsAskedForWithoutADescriptor(t *testing.T) {
	s := accepted(t)
	for len(inquiries) > 0 {
		_ = unix.Close((<-inquiries).fd)
	}
	q, err := inquirer()
	if err != nil {
		t.Fatal(err)
	}
	fillers := runtimetest.Exhaust(t)
	told := make(chan runtime.Peer)
	go func() { told <- Of(s) }()
	for range 100 { // what does not wait has its answer by then
		goruntime.Gosched()
	}
	q.rest()
	if p := <-told; !p.Owner || p.UID != os.Geteuid() {
		t.Errorf("another one asks at the moment: %+v", p)
	}

	_ = unix.Close((<-inquiries).fd)
	last, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	if p := Of(s); p != (runtime.Peer{Unasked: true}) {
		t.Errorf("nobody can ask: %+v", p)
	}
	_ = last.Close()
	if p := Of(s); !p.Owner || p.UID != os.Geteuid() {
		t.Errorf("with a descriptor again: %+v", p)
	}
	for _, f := range fillers {
		_ = f.Close()
	}
}

// A question that came to nothing is asked once more, with another socket.
func TestAnInquiryThatFailedIsMadeAgain(t *testing.T) {
	s := accepted(t)
	for len(inquiries) > 0 {
		_ = unix.Close((<-inquiries).fd)
	}
	q, err := inquirer()
	if err != nil {
		t.Fatal(err)
	}
	from, _ := addrPort(s.RemoteAddr())
	to, _ := addrPort(s.LocalAddr())
	if err := unix.Sendto(q.fd, diagRequest(from, to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	q.rest() // it will be told the answer to that
	if p := Of(s); !p.Owner || p.UID != os.Geteuid() {
		t.Errorf("%+v", p)
	}
}
