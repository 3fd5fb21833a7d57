package proxy

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Who a connection is known to be of asks, whatever its requests show.
func TestAKnownCallerIsNotAskedAgain(t *testing.T) {
	caller := runtime.Caller{Token: runtime.NewSecret("kmb_mine"), RequireToken: true, Via: &runtime.Via{Run: "r", Address: "127.0.0.1:9"}}
	s := &Server{o: Options{DefaultToken: runtime.NewSecret("kmb_default"), Clock: time.Now}}
	c := &conn{known: &caller, peer: runtime.Peer{Known: true, Owner: true}}
	for _, h := range []http.Header{{}, {"Proxy-Authorization": {"Bearer kmb_other"}}} {
		if got := s.caller(c, h); got != caller {
			t.Errorf("%v: %+v", h, got)
		}
	}
	if url := s.newRequest(caller, runtime.Target{}).Results("apr_1"); url != "http://127.0.0.1:9/kimbap/approvals/apr_1" {
		t.Error(url)
	}
}

// What a kimbap elsewhere forwards came to that one's address, which a CONNECT may name.
func TestAForwardedConnectionCameToTheOtherKimbap(t *testing.T) {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
	caller := runtime.Caller{Via: &runtime.Via{Address: "127.0.0.1:9"}}
	c := &conn{raw: ours, known: &caller}
	for host, want := range map[string]bool{"127.0.0.1:9": true, "localhost:9": true, "127.0.0.1:90": false, "localhost:90": false, "127.0.0.1": false, "pipe": false, "": false} {
		if got := c.arrivedAt(host); got != want {
			t.Errorf("%q: %v", host, got)
		}
	}
	c.known = nil
	if c.arrivedAt("127.0.0.1:9") || c.arrivedAt("pipe") {
		t.Error("nobody forwards it")
	}
}

// A reset below TLS says no goodbye: what was cut off cannot look complete.
func TestAKnownConnectionIsReset(t *testing.T) {
	for _, reset := range []bool{false, true} {
		ca := newTestCA(t)
		leaf, err := ca.leaf("example.com:443")
		if err != nil {
			t.Fatal(err)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				ended <- err
				return
			}
			defer conn.Close()
			_, err = io.ReadAll(tls.Client(conn, &tls.Config{RootCAs: ca.roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}))
			ended <- err
		}()
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		k := &Known{Conn: tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*leaf}, MinVersion: tls.VersionTLS12}), Left: func() { left++ }}
		if _, err := k.Write([]byte("half of")); err != nil {
			t.Fatal(err)
		}
		if reset {
			if err := k.SetLinger(0); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = k.Close(), k.Close()
		if err := <-ended; (err != nil) != reset || errors.Is(err, io.EOF) {
			t.Errorf("reset %v: %v", reset, err)
		}
		if left != 1 {
			t.Errorf("left %d times", left)
		}
		_ = ln.Close()
	}
}

// Who borrows the proxy is counted by itself: one that has all its connections in use
// keeps no other out.
func TestKnownCallersTakeNoPlacesFromEachOther(t *testing.T) {
	r := newRig(t, func(o *Options, _ *stages) {
		o.Limits = Limits{Strangers: 1, HeadTimeout: time.Minute, DrainTimeout: 5 * time.Second}
		o.Peer = func(net.Conn) runtime.Peer { return runtime.Peer{} }
	})
	for _, c := range []struct {
		owner string
		in    bool
	}{{"default token:a", true}, {"default token:a", false}, {"default token:b", true}, {"", true}} {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = theirs.Close() })
		own, _ := r.server.admit(&Known{Conn: ours, Owner: c.owner})
		if (own != nil) != c.in {
			t.Errorf("%q: let in %v", c.owner, own != nil)
		}
		if own != nil {
			t.Cleanup(func() { _ = own.Close() })
		}
	}
}
