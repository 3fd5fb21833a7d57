package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

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
		"byte by byte": {with(func(*tls.Config) {}), func(c net.Conn) net.Conn { return crumbs{c} }, true},
		"a vast hello": {with(func(c *tls.Config) { c.NextProtos = vast() }), plain, true}, // crypto/tls bounds it at 64 KiB
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
