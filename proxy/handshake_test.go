package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// crumbs writes every byte as a packet of its own.
type crumbs struct{ net.Conn }

func (c crumbs) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// shards is crumbs of another kind: the first message goes out in TLS records of
// one byte each (RFC 8446 section 5.1).
type shards struct {
	net.Conn
	began *bool
}

func (c shards) Write(p []byte) (int, error) {
	if *c.began || len(p) < 5 || int(p[3])<<8|int(p[4]) != len(p)-5 {
		return c.Conn.Write(p)
	}
	*c.began = true
	var out []byte
	for _, b := range p[5:] {
		out = append(out, p[0], p[1], p[2], 0, 1, b)
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// connected is a connection on which a CONNECT was answered with 200.
func (r *rig) connected(authority string) *client {
	r.t.Helper()
	c := r.dial()
	c.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n")
	if resp := c.answer("CONNECT"); resp.StatusCode != http.StatusOK {
		r.t.Fatalf("CONNECT: %s", resp.Status)
	}
	return c
}

// Unusual ways to begin TLS are served where they are sound, and end where not.
func TestUnusualHandshakes_TL008(t *testing.T) {
	r := newRig(t, nil)
	verify := func(state tls.ConnectionState) error {
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{DNSName: "api.good.test", Roots: r.roots, Intermediates: poolOf(state.PeerCertificates[1:])})
		return err
	}
	with := func(edit func(*tls.Config)) *tls.Config {
		config := &tls.Config{RootCAs: r.roots, ServerName: "api.good.test"}
		edit(config)
		return config
	}
	plain := func(c net.Conn) net.Conn { return c }
	for name, c := range map[string]struct {
		config *tls.Config
		wrap   func(net.Conn) net.Conn
		ok     bool
	}{
		"TLS 1.1":          {with(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), plain, false},
		"TLS 1.2":          {with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }), plain, true},
		"HTTP/2 alone":     {with(func(c *tls.Config) { c.NextProtos = []string{"h2"} }), plain, true},
		"unknown protocol": {with(func(c *tls.Config) { c.NextProtos = []string{"smtp"} }), plain, false},
		"no server name": {with(func(c *tls.Config) {
			c.ServerName, c.InsecureSkipVerify, c.VerifyConnection = "", true, verify
		}), plain, true},
		"byte by byte":      {with(func(*tls.Config) {}), func(c net.Conn) net.Conn { return crumbs{c} }, true},
		"records of a byte": {with(func(*tls.Config) {}), func(c net.Conn) net.Conn { return shards{c, new(bool)} }, true},
		"a vast hello":      {with(func(c *tls.Config) { c.NextProtos = vast() }), plain, true}, // crypto/tls bounds it at 64 KiB
	} {
		t.Run(name, func(t *testing.T) {
			conn := tls.Client(c.wrap(r.connected("api.good.test:443").Conn), c.config)
			err := conn.Handshake()
			if err == nil { // a server of TLS 1.3 may refuse later than the client is done
				_, err = conn.Write([]byte("GET /repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n"))
			}
			if (err == nil) != c.ok {
				t.Errorf("it ended with %v", err)
			}
			_ = conn.Close()
		})
	}
}

func poolOf(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}

// vast is a list of protocols of almost 64 KiB, the first of which would do.
func vast() []string {
	return append([]string{"http/1.1"}, slices.Repeat([]string{strings.Repeat("x", 255)}, 250)...)
}

// What no ordinary client sends ends, and the next one is served: an address for
// a server name, which is no name of the tunnel, and a hello beyond 64 KiB.
func TestHellosThatAreRefused_TL008(t *testing.T) {
	r := newRig(t, nil)
	r.upstream("api.good.test:443", answering(okAnswer))
	conn := tls.Client(renamed{r.connected("api.good.test:443").Conn}, &tls.Config{RootCAs: r.roots, ServerName: "name.test"})
	if err := conn.Handshake(); err == nil {
		t.Error("an address as server name was served")
	}
	if rec := r.outcome(); rec.Err == nil || rec.Err.Code != runtime.CodeMisdirected {
		t.Errorf("recorded %+v", rec)
	}
	over := r.connected("api.good.test:443")
	record := append([]byte{0x16, 3, 1, 0x40, 0}, make([]byte, 0x4000)...)
	copy(record[5:], []byte{1, 1, 0, 1}) // a hello of 65537 bytes
	for range 5 {
		if _, err := over.Conn.Write(record); err != nil {
			break // it was closed before its end
		}
	}
	if said, err := io.ReadAll(over.Conn); len(said) > 0 && said[0] != 0x15 {
		t.Errorf("answered %x %v, want an alert", said, err)
	}
	own := r.open("api.good.test:443")
	own.send("GET /repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	own.get("GET")
}

// renamed writes an address where a hello names name.test.
type renamed struct{ net.Conn }

func (c renamed) Write(p []byte) (int, error) {
	if _, err := c.Conn.Write(bytes.ReplaceAll(p, []byte("name.test"), []byte("127.0.0.1"))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A program with a certificate of its own in mind says so in the handshake, and
// the trail says it to the operator, once.
func TestClientThatKnowsItsCertificate_TL010(t *testing.T) {
	r := newRig(t, nil)
	conn := tls.Client(r.connected("api.good.test:443").Conn, &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "api.good.test"})
	if err := conn.Handshake(); err == nil {
		t.Fatal("the handshake went well")
	}
	rec := r.outcome()
	if rec.Err == nil || rec.Err.Reason != runtime.ReasonClientRejected || rec.Err.Hint == "" || rec.Target.Authority != "api.good.test:443" {
		t.Errorf("recorded %+v", rec)
	}
	r.upstream("api.good.test:443", answering(okAnswer))
	own := r.open("api.good.test:443")
	own.send("GET /repos/a/b/pulls HTTP/1.1\r\nHost: api.good.test\r\n\r\n")
	own.get("GET")
	if next := r.outcome(); next.Target.Path == "" {
		t.Errorf("recorded twice: %+v", next)
	}
}

// Where no certificate can be made the trail says so, and does not blame the client.
func TestAHostWithoutACertificateIsRecorded(t *testing.T) {
	cause := errors.New("root.key: other users can open it")
	for _, c := range []struct {
		err    error
		code   runtime.Code
		reason runtime.Reason
	}{
		{cause, runtime.CodeInternal, runtime.ReasonNotCertified},
		{&runtime.Error{Code: runtime.CodeVaultLocked, Msg: "locked", Err: cause}, runtime.CodeVaultLocked, ""},
	} {
		r := newRig(t, func(o *Options, _ *stages) {
			o.Leaf = func(string) (*tls.Certificate, error) { return nil, c.err }
		})
		conn := tls.Client(r.connected("api.good.test:443").Conn, &tls.Config{RootCAs: r.roots, ServerName: "api.good.test"})
		if err := conn.Handshake(); err == nil {
			t.Fatal("the handshake went well")
		}
		rec := r.outcome()
		if rec.Err == nil || rec.Err.Code != c.code || rec.Err.Reason != c.reason || !errors.Is(rec.Err, cause) {
			t.Errorf("recorded %+v", rec.Err)
		}
	}
}

// A tunnel in which nothing is said, or only the beginning of a hello, ends at its
// deadline with one record that says so.
func TestASilentTunnelIsRecorded_AU008(t *testing.T) {
	t.Parallel()
	for _, engine := range []Engine{EngineStd, EngineRelay} {
		for first, said := range map[string]string{"": "before it spoke TLS", "\x16\x03\x01": "in the TLS handshake"} {
			t.Run(string(engine)+", "+said, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, func(o *Options, _ *stages) { o.Engine, o.Limits.HeadTimeout = engine, 2*time.Second })
				c := r.connected("api.good.test:443")
				c.send(first)
				if _, err := io.ReadAll(c.Conn); err != nil {
					t.Errorf("it ended with %v", err)
				}
				rec := r.outcome()
				if rec.Err == nil || rec.Err.Code != runtime.CodeTimeout || rec.Err.Reason != runtime.ReasonTunnelUnopened ||
					rec.Target.Authority != "api.good.test:443" || !strings.Contains(rec.Err.Msg, said) {
					t.Errorf("recorded %+v, %v", rec, rec.Err)
				}
				if n := len(r.stages.outcomes); n != 0 {
					t.Errorf("%d records more", n)
				}
			})
		}
	}
}
