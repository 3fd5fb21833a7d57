package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/services/rest/gulp"
)

// errUnasked is bytes from an upstream that nobody had asked for: an answer
// smuggled in behind the one before.
var errUnasked = errors.New("the upstream sent bytes that nobody asked for")

// tlsFailure marks an error of a TLS handshake.
type tlsFailure struct{ error }

func (f tlsFailure) Unwrap() error { return f.error }

// door dials for one trust.
type door struct {
	o     *Options
	trust trust
	tls   *tls.Config
	pool  *pool // of HTTP/2 connections
}

func (d *door) dial(ctx context.Context, authority string) (net.Conn, *link, error) {
	ctx, cancel := context.WithTimeout(ctx, d.o.DialTimeout)
	defer cancel()
	conn, address, private, err := d.o.Dialer.Dial(ctx, authority, d.trust.trusted, d.trust.loopback)
	if err != nil {
		return nil, nil, err
	}
	l := &link{address: address, private: private, idle: d.o.IdleTimeout, raw: gulp.Raw(conn)}
	l.settled.L = &l.mu
	return conn, l, nil
}

// cleartext dials for http. What a service may hear without TLS because it is on this
// machine goes nowhere else.
func (d *door) cleartext(ctx context.Context, authority string) (*link, error) {
	conn, l, err := d.dial(ctx, authority)
	if err != nil {
		return nil, err
	}
	if d.trust.loopback && !isLoopback(l.address) {
		_ = conn.Close()
		return nil, errors.New("the name of a loopback service leads elsewhere")
	}
	l.Conn = conn
	return l, nil
}

// plain is cleartext for net/http.
func (d *door) plain(ctx context.Context, _, authority string) (net.Conn, error) {
	l, err := d.cleartext(ctx, authority)
	if err != nil {
		return nil, err // a nil link would be a connection that is not nil
	}
	return l, nil
}

// Protocols of the ALPN extension (RFC 7301, RFC 9113 section 3.2).
const (
	protocolH2 = "h2"
	protocolH1 = "http/1.1"
)

// wish is what an exchange wants of the connection that net/http dials for it.
type wish struct {
	onlyH1 bool                 // HTTP/2 would not do
	fresh  atomic.Pointer[link] // dialled already, for the first to take it; may be nil
}

type wishKey struct{}

// secure dials for net/http, which speaks HTTP/1.1 on what it gets. A
// connection that turns out to be one of HTTP/2 goes to the pool.
func (d *door) secure(ctx context.Context, _, authority string) (net.Conn, error) {
	w, ok := ctx.Value(wishKey{}).(*wish)
	if !ok {
		w = &wish{onlyH1: true}
	}
	if fresh := w.fresh.Swap(nil); fresh != nil {
		return fresh, nil
	}
	var l *link
	var err error
	if w.onlyH1 {
		l, err = d.shake(ctx, authority, protocolH1)
	} else {
		l, err = d.open(ctx, authority)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// open dials for a request over HTTP/1.1. A connection that becomes one of
// HTTP/2 goes to the pool, and the error is errSpeaksH2.
func (d *door) open(ctx context.Context, authority string) (*link, error) {
	o := origin{d.trust, authority}
	if d.pool.requires(o) {
		l, err := d.shake(ctx, authority, protocolH1)
		if err == nil || !choseNothing(err) {
			return l, err
		}
		d.pool.relent(o)
	}
	l, err := d.shake(ctx, authority, protocolH2, protocolH1)
	if err != nil {
		return nil, err
	}
	if l.protocol != protocolH2 {
		d.pool.noteH1(o)
		return l, nil
	}
	if _, err := d.pool.adopt(o, l); err != nil {
		return nil, err
	}
	return nil, errSpeaksH2
}

// mirror dials for a caller of HTTP/1.1 who would have to wait for the upstream's
// HTTP/2: that is offered only to a server that has chosen nothing, since it may know
// nothing else.
func (d *door) mirror(ctx context.Context, authority string) (*link, error) {
	o := origin{d.trust, authority}
	if !d.pool.onlyH2(o) {
		l, err := d.shake(ctx, authority, protocolH1)
		switch {
		case err == nil && (l.protocol == protocolH1 || d.pool.speaksH1(o)):
			return l, nil
		case err == nil:
			_ = l.Close()
		case !choseNothing(err):
			return nil, err
		}
	}
	l, err := d.shake(ctx, authority, protocolH2, protocolH1)
	if err != nil {
		return nil, err
	}
	if l.protocol == protocolH2 {
		d.pool.noteOnlyH2(o)
	} else {
		d.pool.noteH1(o)
	}
	return l, nil
}

// noApplicationProtocol is the alert of RFC 7301 section 3.2, for which crypto/tls has
// no name.
const noApplicationProtocol tls.AlertError = 120

// choseNothing reports whether a server ended the handshake because it speaks none of
// the protocols it was offered. crypto/tls does not export the type of an alert that
// came, but one that says the same.
func choseNothing(err error) bool {
	var alert *net.OpError
	return errors.As(err, &alert) && alert.Op == "remote error" && alert.Err.Error() == noApplicationProtocol.Error()
}

// shake dials and shakes hands for https, offering the protocols. Where the roots that
// are quick to have do not verify what the upstream shows, it does so again with all:
// nothing was sent yet.
func (d *door) shake(ctx context.Context, authority string, protocols ...string) (*link, error) {
	if d.o.Roots == nil {
		return d.shakeWith(ctx, d.tls.RootCAs, authority, protocols)
	}
	roots, all := d.o.Roots.First()
	l, err := d.shakeWith(ctx, roots, authority, protocols)
	var unverified *tls.CertificateVerificationError
	if !all && errors.As(err, &unverified) {
		return d.shakeWith(ctx, d.o.Roots.All(), authority, protocols)
	}
	return l, err
}

func (d *door) shakeWith(ctx context.Context, roots *x509.CertPool, authority string, protocols []string) (*link, error) {
	conn, l, err := d.dial(ctx, authority)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = hostOf(authority)
	cfg.NextProtos, cfg.RootCAs = protocols, roots
	l.gulp = gulp.New(conn, l.raw)
	secured := tls.Client(l.gulp, cfg)
	ctx, cancel := context.WithTimeout(ctx, d.o.DialTimeout)
	defer cancel()
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, tlsFailure{err}
	}
	l.Conn, l.protocol = secured, secured.ConnectionState().NegotiatedProtocol
	return l, nil
}

// hostOf is the host of an authority, without brackets.
func hostOf(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		return authority
	}
	return host
}

// isLoopback reports whether the authority is this machine by its own words.
func isLoopback(authority string) bool {
	host := hostOf(authority)
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if last := host[max(0, len(host)-1):]; !strings.Contains(host, ":") && (last < "0" || last > "9") {
		return false // a name, of which no address is tried to be made for each request
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
