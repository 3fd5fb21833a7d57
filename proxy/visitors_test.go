package proxy

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// served reports whether the proxy takes requests on the connection at all.
func (c *client) served() bool {
	c.t.Helper()
	_, _ = io.WriteString(c.Conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") // fails when it is closed already
	resp, err := http.ReadResponse(c.br, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	return err == nil && resp.StatusCode != http.StatusServiceUnavailable
}

// Nobody has more connections than the limits say, whatever they send or do not
// send, and nobody's are taken by others. A closed one makes room.
func TestConnectionsAreCountedPerPeer(t *testing.T) {
	owner := runtime.Peer{Known: true, UID: 1000, Owner: true}
	one, two := runtime.Peer{Known: true, UID: 1}, runtime.Peer{Known: true, UID: 2}
	var peer atomic.Pointer[runtime.Peer]
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{Connections: 3, Strangers: 2, QueueTimeout: 10 * time.Millisecond, HeadTimeout: time.Hour}
		o.Peer = func(net.Conn) runtime.Peer { return *peer.Load() }
	})
	as := func(p runtime.Peer) *client {
		peer.Store(&p)
		return r.dial()
	}
	for _, c := range []struct {
		peer runtime.Peer
		most int
	}{{one, 2}, {two, 2}, {runtime.Peer{}, 2}, {owner, 3}} {
		var held []*client
		for range c.most {
			held = append(held, as(c.peer))
			if !held[len(held)-1].served() {
				t.Fatalf("%+v: connection %d is not served", c.peer, len(held))
			}
		}
		if as(c.peer).served() {
			t.Errorf("%+v: one connection too many is served", c.peer)
		}
		_ = held[1].Close()
		r.eventually("room", func() bool { return as(c.peer).served() })
	}
}

// from is a connection that comes from an address.
type from struct {
	net.Conn
	address string
}

func (f from) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(f.address), 4711))
}

// Where the kernel names nobody, one container or machine takes no places from another.
func TestUnknownPeersAreCountedPerAddress(t *testing.T) {
	var peer runtime.Peer
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{Strangers: 1, HeadTimeout: time.Minute, DrainTimeout: 5 * time.Second}
		o.Peer = func(net.Conn) runtime.Peer { return peer }
	})
	for _, c := range []struct {
		address string
		in      bool
	}{
		{"172.17.0.2", true}, {"172.17.0.2", false}, {"::ffff:172.17.0.2", false}, {"172.17.0.3", true},
		{"fd00:1::5", true}, {"fd00:1::6", false}, {"fd00:2::5", true}, // a host has all of a /64
		{"fe80::1%eth0", true}, {"fe80::1%eth1", true},
		{"127.0.0.1", true}, {"127.0.0.2", false}, {"::1", false}, // any program has all of these
	} {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		own, _ := r.server.admit(from{ours, c.address})
		if (own != nil) != c.in {
			t.Errorf("%s: let in %v", c.address, own != nil)
		}
		if own != nil {
			t.Cleanup(func() { _ = own.Close() })
		}
	}
	peer = runtime.Peer{Known: true, UID: 1}
	for i, address := range []string{"127.0.0.1", "192.0.2.1"} { // a user counts for all of his
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		if own, _ := r.server.admit(from{ours, address}); (own != nil) != (i == 0) {
			t.Errorf("a user from %s: let in %v", address, own != nil)
		} else if own != nil {
			t.Cleanup(func() { _ = own.Close() })
		}
	}
}

// A tunnel has a place of its own and leaves the count; a CONNECT that is
// refused does not.
func TestTunnelsAreNoVisitors(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{Connections: 2, QueueTimeout: 10 * time.Millisecond, HeadTimeout: time.Hour}
	})
	for range 3 {
		r.open("api.good.test:443")
	}
	for range 2 {
		c := r.dial()
		c.send("CONNECT nowhere.test:443 HTTP/1.1\r\nHost: nowhere.test:443\r\n\r\n")
		c.refused(403, runtime.CodeEgressDenied)
	}
	if r.dial().served() {
		t.Error("refused tunnels are not counted")
	}
}

// A stranger is told so once for each connection; the owner may try again.
func TestStrangersAreDismissed(t *testing.T) {
	for _, c := range []struct {
		peer      runtime.Peer
		dismissed bool
	}{{runtime.Peer{}, true}, {runtime.Peer{Known: true, UID: 1}, true}, {runtime.Peer{Known: true, Owner: true}, false}} {
		for _, head := range []string{
			"GET http://plain.test/ HTTP/1.1\r\nHost: plain.test\r\n\r\n",
			"CONNECT api.good.test:443 HTTP/1.1\r\nHost: api.good.test:443\r\n\r\n",
		} {
			r := newRig(t, func(o *Options, _ *stages) {
				o.RequireToken, o.Peer = true, func(net.Conn) runtime.Peer { return c.peer }
			})
			client := r.dial()
			client.send(head)
			client.refused(407, runtime.CodeUnauthenticated)
			if c.dismissed {
				client.ended()
			} else if !client.served() {
				t.Errorf("%q: the owner's connection was closed", head)
			}
		}
	}
}

// The caps follow from the limits that are given.
func TestConnectionDefaults(t *testing.T) {
	for given, want := range map[Limits]int{{}: 2000, {Tunnels: 100}: 100, {PerPrincipal: 2}: 64, {Connections: 5}: 5} {
		if l := given.withDefaults(); l.Connections != want || l.Strangers != 64 {
			t.Errorf("%+v: %d of the owner, %d of strangers", given, l.Connections, l.Strangers)
		}
	}
}

// A body that nobody wants is read so that the connection can go on. Meanwhile its client,
// who need have shown no token, keeps no other out, nor the reading from ending.
func TestABodyThatNobodyWantsKeepsNoOtherOut(t *testing.T) {
	unwanted := func(r *rig) *client {
		c := r.dial()
		c.send("POST http://nowhere.test/ HTTP/1.1\r\nHost: nowhere.test\r\nContent-Length: 200000\r\n\r\n")
		if resp, _ := c.get("POST"); resp.StatusCode != http.StatusProxyAuthRequired || resp.Close {
			t.Fatalf("%s, says that the connection ends: %t", resp.Status, resp.Close)
		}
		t.Cleanup(drip(c, "x"))
		return c
	}
	change := func(o *Options, _ *stages) {
		o.Engine, o.RequireToken = EngineRelay, true // net/http does not read that much
		o.Limits = Limits{Connections: 2, HeadTimeout: time.Second, DrainTimeout: 5 * time.Second}
		o.Peer = func(net.Conn) runtime.Peer { return runtime.Peer{Known: true, Owner: true} }
	}
	r := newRig(t, change)
	unwanted(r)
	unwanted(r)
	if !r.dial().served() {
		t.Error("another client is kept out")
	}
	r = newRig(t, func(o *Options, st *stages) {
		change(o, st)
		o.Limits.IdleTimeout = 300 * time.Millisecond
	})
	c := unwanted(r)
	_ = c.SetReadDeadline(time.Now().Add(patience / 3))
	c.gone()
}
