package peer

import (
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// The kernel knows whose connection it is, over IPv4 and IPv6, and that nobody
// holds one whose program has gone.
func TestPeer(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if p := Of(s); !p.Owner || !p.Known || p.UID != os.Geteuid() {
			t.Errorf("%s: %+v", address, p)
		}
		_ = c.Close()
		if _, err := s.Read(make([]byte, 1)); err != io.EOF {
			t.Fatal(err)
		}
		if p := Of(s); p.Owner || p.Known {
			t.Errorf("%s after the close: %+v", address, p)
		}
		from := netip.MustParseAddrPort(c.LocalAddr().String())
		listening := netip.MustParseAddrPort(ln.Addr().String())
		// Nobody is connected from there; a listener that would match is not an answer.
		if p := socketOwner(netip.AddrPortFrom(listening.Addr(), listening.Port()), netip.AddrPortFrom(from.Addr(), 1)); p != (runtime.Peer{}) {
			t.Errorf("%s: a listener counts as %+v", address, p)
		}
		_, _ = s.Close(), ln.Close()
	}
	if p := Of(&net.UnixConn{}); p != (runtime.Peer{}) {
		t.Errorf("a unix socket counts as %+v", p)
	}
}
