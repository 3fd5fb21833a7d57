package proxy

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
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
	if p := KernelPeer(s); !p.Owner || !p.Known || p.UID != os.Geteuid() {
		t.Errorf("%+v", p)
	}
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); err == nil {
		t.Fatal("read from a closed connection")
	}
	if p := KernelPeer(s); p.Owner || p.Known {
		t.Errorf("after the close: %+v", p)
	}
}
