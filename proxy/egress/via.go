package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Via is a proxy that a network demands on the way out: connections are opened
// by CONNECT through it (RFC 9110 section 9.3.6), for http targets too. It is
// dialled wherever it is, because the owner has named it.
//
// Names are resolved by the proxy. What can be told without resolving is still
// judged here: literal addresses, names of this host, of metadata services and
// of the deny list. Where a name leads, the proxy has to judge.
type Via struct {
	Authority string      // host:port of the proxy; required
	TLS       *tls.Config // speak TLS to it, with these roots; nil: in clear
	// Authorization returns the value of Proxy-Authorization; nil: none. It is a
	// func so that nothing that prints options can print a password.
	Authorization func() string
	Except        []string // ranges, addresses and host names that are dialled directly; a range covers literal addresses
}

// via is a checked [Via].
type via struct {
	to            target
	tls           *tls.Config
	authorization func() string
	except        list
}

// maxConnectHead bounds the answer to a CONNECT, in bytes.
const maxConnectHead = 64 << 10

func newVia(o *Via) (*via, error) {
	if o == nil {
		return nil, nil
	}
	to, err := parseTarget(o.Authority)
	if err != nil {
		return nil, fmt.Errorf("proxy.upstream_proxy: %w", err)
	}
	v := &via{to: to, authorization: o.Authorization}
	if v.except, err = parseList("proxy.upstream_no_proxy", o.Except); err != nil {
		return nil, err
	}
	if o.TLS != nil {
		v.tls = o.TLS.Clone()
		v.tls.ServerName, v.tls.NextProtos = to.host, []string{"http/1.1"}
		v.tls.MinVersion = max(v.tls.MinVersion, tls.VersionTLS12)
	}
	return v, nil
}

// covers reports whether a target is reached through the proxy: all but this
// host by its own words and what the owner excepted.
func (v *via) covers(t target) bool {
	return v != nil && !t.namesLoopback() && !v.except.hasHost(t.host) &&
		!(t.addr.IsValid() && v.except.hasAddr(t.addr.Unmap()))
}

// through judges a target as far as its own words go, connects to the proxy and
// asks it for the target.
func (g *Guard) through(ctx context.Context, asked target, r Request) (net.Conn, Info, error) {
	class, err := g.words(asked, r)
	if err != nil {
		return nil, Info{}, err
	}
	conn, address, err := g.dialVia(ctx)
	if err == nil {
		conn, err = g.via.open(ctx, conn, asked.String())
	}
	switch {
	case err == nil:
		return conn, Info{Address: address, Private: class != ClassPublic}, nil
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, Info{}, ctx.Err()
	}
	return nil, Info{}, err
}

// words judges a target by what it says itself.
func (g *Guard) words(asked target, r Request) (Class, error) {
	if err := g.deniesName(asked); err != nil || !asked.addr.IsValid() {
		return ClassPublic, err
	}
	itself, err := g.judge(asked, asked.port, []netip.Addr{asked.addr}, grant{trusted: r.Trusted})
	if err != nil {
		return "", err
	}
	return itself[0].class, nil
}

// dialVia connects to the proxy.
func (g *Guard) dialVia(ctx context.Context) (net.Conn, string, error) {
	addrs, err := g.addresses(ctx, g.via.to)
	if err != nil {
		return nil, "", &ProxyError{Err: fmt.Errorf("resolve %s: %w", g.via.to.host, err)}
	}
	var candidates []candidate
	for _, addr := range addrs {
		is, err := g.isSelf(addr, g.via.to.port)
		if err != nil {
			return nil, "", err
		}
		if is { // we would ask ourselves, for ever
			return nil, "", &Self{Authority: g.via.to.String()}
		}
		candidates = append(candidates, candidate{addr: netip.AddrPortFrom(addr.Unmap(), g.via.to.port)})
	}
	conn, chosen, err := dialFirst(ctx, g.dialer, candidates)
	if err != nil {
		return nil, "", &ProxyError{Err: err}
	}
	return conn, chosen.addr.String(), nil
}

// open makes a connection to the proxy one to the authority, or closes it. What
// the proxy says is in no error: it may repeat what it was sent.
func (v *via) open(ctx context.Context, conn net.Conn, authority string) (_ net.Conn, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	raw := conn
	defer func() {
		if !stop() && err == nil {
			err = &ProxyError{Err: ctx.Err()}
		}
		if err != nil {
			_ = raw.Close()
			return
		}
		_ = raw.SetDeadline(time.Time{})
	}()
	if v.tls != nil {
		secured := tls.Client(conn, v.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			// A reset says nothing of who is there; one that speaks no TLS may simply end.
			return nil, &ProxyError{TLS: !system.ConnectionReset(err), Err: timely(ctx, err)}
		}
		conn = secured
	}
	if _, err := io.WriteString(conn, v.head(authority)); err != nil {
		return nil, &ProxyError{Err: timely(ctx, err)}
	}
	from := bufio.NewReader(io.LimitReader(conn, maxConnectHead))
	status, err := answer(from)
	if err != nil {
		return nil, &ProxyError{Err: timely(ctx, err)}
	}
	if status < 200 || status > 299 {
		return nil, &ProxyError{Status: status}
	}
	early, _ := from.Peek(from.Buffered())
	if len(early) == 0 {
		return conn, nil
	}
	return &talkative{Conn: conn, early: early}, nil
}

// head is the request for a tunnel.
func (v *via) head(authority string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n", authority, authority)
	if v.authorization != nil {
		if value := v.authorization(); value != "" {
			fmt.Fprintf(&b, "Proxy-Authorization: %s\r\n", value)
		}
	}
	b.WriteString("\r\n")
	return b.String()
}

// answer reads the status of the final answer.
func answer(from *bufio.Reader) (int, error) {
	for range 8 { // 1xx answers come before it, RFC 9110 section 15.2
		status, err := answerHead(from)
		var network net.Error
		switch {
		case errors.As(err, &network):
			return 0, network
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return 0, errors.New("it closed the connection without an answer")
		case err != nil:
			return 0, errors.New("its answer is not HTTP")
		case status >= 200 || status == http.StatusSwitchingProtocols:
			return status, nil
		}
	}
	return 0, errors.New("it sends one 1xx answer after the other")
}

// answerHead reads the head of one answer. What it says of a body's length is ignored, as RFC 9112
// section 6.3 wants it of a 2xx to CONNECT: net/http refuses what is odd there.
func answerHead(from *bufio.Reader) (status int, err error) {
	reader := textproto.NewReader(from)
	line, err := reader.ReadLine()
	if err != nil {
		return 0, err
	}
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	status, err = strconv.Atoi(code)
	if _, _, known := http.ParseHTTPVersion(version); err != nil || !known || len(code) != 3 || status < 100 {
		return 0, errors.New("malformed status line")
	}
	_, err = reader.ReadMIMEHeader()
	return status, err
}

// timely puts the end of the context in place of the deadline it caused.
func timely(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// talkative is a connection whose first bytes came with the answer of the proxy.
type talkative struct {
	net.Conn
	early []byte
}

// Read implements [net.Conn].
func (t *talkative) Read(p []byte) (int, error) {
	if len(t.early) == 0 {
		return t.Conn.Read(p)
	}
	n := copy(p, t.early)
	if t.early = t.early[n:]; len(t.early) == 0 {
		t.early = nil
	}
	return n, nil
}

// NetConn returns the connection below, as that of TLS does.
func (t *talkative) NetConn() net.Conn { return t.Conn }

// CloseWrite ends our half of the connection.
func (t *talkative) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}
