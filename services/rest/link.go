package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/services/rest/gulp"
	"github.com/kimbap-run/kimbap/services/rest/witness"
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
	if err := d.pool.adopt(o, l); err != nil {
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

// link is one upstream connection of HTTP/1.1. It knows whether an exchange is under way,
// because net/http alone lends a connection to the next request before it has
// looked whether bytes follow the answer before; the next one, of another
// tenant perhaps, would take them for its own.
type link struct {
	net.Conn
	address  string
	private  bool
	protocol string          // that TLS negotiated; "" for none
	gulp     *gulp.Conn      // below TLS; nil without
	raw      syscall.RawConn // of the socket; nil when the kernel cannot be asked
	idle     time.Duration

	mu      sync.Mutex
	settled sync.Cond
	reading bool // net/http waits for bytes: none are left in its buffer
	probing bool // the reader is to look whether any are there
	closed  bool
	begun   int
	ended   int
	wrote   int64
	witness *witness.Witness // of the exchange; nil: nobody compares
	lost    func()           // told when nothing more can come; may be nil
}

// watch lets a witness see the bytes of the next exchange. Every engine that
// speaks HTTP/1 calls it before begin.
func (l *link) watch(w *witness.Witness) {
	if w != nil {
		w.Lend()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.witness = w
}

func (l *link) watching() *witness.Witness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.witness
}

// whenLost names who is told when nothing more can come in the next exchange: net/http waits
// for the body of the request all the same.
func (l *link) whenLost(tell func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = tell
}

// begin waits until what followed the last answer has shown itself, be it in
// net/http's buffer, in that of TLS or in the kernel's, then opens an exchange. On
// a connection with left-over bytes net/http closes it instead.
func (l *link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.reading && !l.closed {
		l.settled.Wait()
	}
	if l.begun > 0 && !l.closed { // before that it is no answer to anybody
		l.probing = true
		_ = l.Conn.SetReadDeadline(l.lookUntil())
		for l.probing && !l.closed {
			l.settled.Wait()
		}
	}
	l.begun++
	l.wrote = 0
}

// end closes the exchange whose answer was read to its end.
func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
}

// untouched reports whether nothing was written in this exchange.
func (l *link) untouched() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote == 0
}

// Read implements [net.Conn]. Bytes outside an exchange are an error.
func (l *link) Read(p []byte) (int, error) {
	l.set(true)
	n, err := l.Conn.Read(p)
	l.mu.Lock()
	for l.probing && n == 0 && late(err) && l.nothing() {
		l.probing = false
		_ = l.Conn.SetReadDeadline(time.Time{})
		l.settled.Broadcast()
		l.mu.Unlock()
		n, err = l.Conn.Read(p)
		l.mu.Lock()
	}
	l.reading = false
	unasked, w := n > 0 && l.begun == l.ended || l.probing && late(err), l.witness
	lost := l.lost
	l.mu.Unlock()
	if err != nil && lost != nil {
		lost()
	}
	if w != nil {
		w.Incoming(p[:n])
	}
	if unasked {
		_ = l.Close()
		return 0, errUnasked
	}
	return n, l.gulp.CutOff(err)
}

// lookUntil is when a look for bytes ends: at once where the kernel can be asked.
func (l *link) lookUntil() time.Time {
	if l.raw == nil {
		return soon()
	}
	return time.Unix(1, 0)
}

// nothing reports whether neither the kernel holds bytes nor TLS a part of a record.
func (l *link) nothing() bool {
	return (l.raw == nil || gulp.Quiet(l.raw)) && !l.gulp.Midway()
}

func (l *link) set(reading bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = reading
	l.settled.Broadcast()
}

// Write implements [net.Conn], with the idle timeout for one write.
func (l *link) Write(p []byte) (int, error) {
	if w := l.watching(); w != nil {
		ready, err := w.Outgoing(p)
		if err != nil {
			return 0, err
		}
		if n, err := l.send(ready); err != nil {
			return min(n, len(p)), err
		}
		return len(p), nil
	}
	return l.send(p)
}

func (l *link) send(p []byte) (int, error) {
	_ = l.Conn.SetWriteDeadline(time.Now().Add(l.idle))
	n, err := l.Conn.Write(p)
	l.mu.Lock()
	l.wrote += int64(n)
	l.mu.Unlock()
	return n, err
}

// Close implements [net.Conn].
func (l *link) Close() error {
	l.mu.Lock()
	l.closed = true
	l.settled.Broadcast()
	l.mu.Unlock()
	return l.Conn.Close()
}

// CloseWrite ends our half of the connection.
func (l *link) CloseWrite() error {
	if half, ok := l.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return l.Close()
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
