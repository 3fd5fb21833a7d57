package netns

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestEachNameHasOneAddress(t *testing.T) {
	n := NewNames()
	first, ok := n.Address("API.Acme.example.")
	if again, ok2 := n.Address("api.acme.example"); !ok || !ok2 || first != again || first.String() != "198.18.0.1" {
		t.Errorf("%v %v, then %v %v", first, ok, again, ok2)
	}
	other, _ := n.Address("api.acme.example.evil.test")
	if other == first {
		t.Error("two names have one address")
	}
	for addr, want := range map[string]string{
		"198.18.0.1": "api.acme.example", "::ffff:198.18.0.2": "api.acme.example.evil.test",
		"198.18.0.0": "", "198.18.0.3": "", "198.20.0.1": "", "198.17.255.255": "", "127.0.0.1": "", "::1": "",
	} {
		if got, ok := n.Name(netip.MustParseAddr(addr)); got != want || ok != (want != "") {
			t.Errorf("%s is %q, %v; want %q", addr, got, ok, want)
		}
	}
}

func TestWhatNoHostCanBeCalledHasNone(t *testing.T) {
	n := NewNames()
	for _, name := range []string{
		"", ".", "a..b", ".a", "a b", "a/b", "a:80", "a\x00b", "ä.example", strings.Repeat("a", 64) + ".b", strings.Repeat("a.", 127) + "aa",
		"8.8.8.8", "1", "a.1", "[::1]", "a\r\nHost", "user@host", "*.example",
	} {
		if addr, ok := n.Address(name); ok {
			t.Errorf("%q has %v", name, addr)
		}
	}
	for _, name := range []string{"a", "a_b.example", "xn--4ca.example", "1.a", "a-b"} {
		if _, ok := n.Address(name); !ok {
			t.Errorf("%q has none", name)
		}
	}
}

// A program that asks for ever new names gets no more, and no address of a name
// that another was given before.
func TestNamesAreBounded(t *testing.T) {
	n := NewNames()
	n.most = 100
	seen := map[netip.Addr]bool{}
	for i := range 200 {
		addr, ok := n.Address("n" + strconv.Itoa(i) + ".test")
		if ok != (i < 100) || ok && seen[addr] {
			t.Fatalf("name %d: %v %v", i, addr, ok)
		}
		seen[addr] = ok
	}
	if addr, ok := n.Address("n7.test"); !ok || addr.String() != "198.18.0.8" {
		t.Errorf("an old name has %v %v", addr, ok)
	}
	last := at(mostNames)
	if number, ok := numberOf(last); !ok || number != mostNames || !netip.MustParsePrefix("198.18.0.0/15").Contains(last) {
		t.Errorf("the last address is %v", last)
	}
}

func TestNamesFromManySides(t *testing.T) {
	n := NewNames()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 500 {
				name := "n" + strconv.Itoa(i) + ".test"
				addr, _ := n.Address(name)
				if got, ok := n.Name(addr); !ok || got != name {
					t.Errorf("%v is %q, want %q", addr, got, name)
				}
			}
		})
	}
	all.Wait()
	if len(n.names) != 501 {
		t.Errorf("%d names", len(n.names)-1)
	}
}

func TestDoorsAreForPortsOfServices(t *testing.T) {
	n := NewNames()
	doors := n.Doors([]string{"a.test:443", "a.test:8443", "b.test:80", "b.test:8443", "a.test:8443", "c.test:", "c.test:0", "c.test:70000", "10.0.0.1:8443", "c.test"})
	if got := len(doors); got != 2 || doors[0].String() != "198.18.0.1:8443" || doors[1].String() != "198.18.0.2:8443" {
		t.Errorf("doors %v", doors)
	}
	for _, d := range doors {
		got, ok := n.authority(net.TCPAddrFromAddrPort(d))
		if want := map[string]string{"198.18.0.1": "a.test:8443", "198.18.0.2": "b.test:8443"}[d.Addr().String()]; !ok || got != want {
			t.Errorf("%v means %q, want %q", d, got, want)
		}
	}
	if got, ok := n.authority(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443}); ok {
		t.Errorf("loopback means %q", got)
	}
}
