package proxy

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// peek looks at the first bytes a client sends into a raw tunnel and leaves
// them there. Known means TLS or HTTP for the authority; TLS or HTTP for
// another one is an error, and so is an end before the first of them; anything
// else, silence too, is not known.
func (t *Tunnel) peek(c *taken, authority string) (known bool, err error) {
	return t.peekFor(t.o.Peek, c, authority)
}

// peekFor is peek for a client that has so long to begin.
func (t *Tunnel) peekFor(patience time.Duration, c *taken, authority string) (known bool, err error) {
	defer func() { _ = c.SetReadDeadline(time.Time{}) }()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 2<<10)
	n, err := c.Read(buf)
	switch {
	case n > 0:
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	case isEnd(err):
		return false, errMute
	default:
		return false, &runtime.Error{Code: runtime.CodeCanceled, Msg: "the client went away", Err: err}
	}
	c.prefix = append(buf[:n:n], c.prefix...)
	_ = c.SetReadDeadline(time.Now().Add(t.o.Hello))
	if buf[0] == recordHandshake {
		return peekTLS(c, authority)
	}
	if !mayBeHTTP(c.prefix) {
		return false, nil
	}
	return t.peekHTTP(c, authority)
}

// errMute is a client that hung up without a word, or will only listen: what it hears
// then is what a server says first.
var errMute = errors.New("the client ended before it began")

// maxMethod bounds the methods that a raw tunnel is recognised by, in bytes.
const maxMethod = 32

// mayBeHTTP reports whether b could be the beginning of a request line, so that
// it is worth waiting for the rest.
func mayBeHTTP(b []byte) bool {
	method, _, whole := bytes.Cut(b, []byte(" "))
	return len(method) <= maxMethod && http1.IsToken(string(method)) && (whole || len(b) <= maxMethod)
}

// isEnd reports whether a read ended because the other side had finished.
func isEnd(err error) bool { return errors.Is(err, io.EOF) }

// errPeeked ends a handshake that was only listened to.
var errPeeked = errors.New("peeked")

// peekTLS reads a ClientHello and compares its server name.
func peekTLS(c *taken, authority string) (known bool, err error) {
	var (
		seen  bytes.Buffer
		name  string
		found bool
	)
	listener := tls.Server(&deaf{Conn: c, r: io.TeeReader(c, &seen)}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name, found = hello.ServerName, true
			return nil, errPeeked
		},
	})
	err = listener.Handshake()
	c.prefix = append(seen.Bytes(), c.prefix...)
	switch {
	case found && sameHost(name, authority):
		return true, nil
	case found:
		return false, misdirected("CONNECT", authority, "the TLS server name", name)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, slow(err)
	}
	return false, nil
}

// deaf is a connection that can be read and takes no answer.
type deaf struct {
	net.Conn
	r io.Reader
}

// Read implements [io.Reader].
func (d *deaf) Read(p []byte) (int, error) { return d.r.Read(p) }

// Write implements [io.Writer] by dropping p: an alert is not for the client.
func (d *deaf) Write(p []byte) (int, error) { return len(p), nil }

// Close does nothing; the connection goes on.
func (d *deaf) Close() error { return nil }

// peekHTTP reads one request head, if it is one, and compares its host.
func (t *Tunnel) peekHTTP(c *taken, authority string) (known bool, err error) {
	buf := c.prefix
	c.prefix = nil
	defer func() { c.prefix = append(buf, c.prefix...) }()
	line, err := t.until(c, &buf, "\n")
	if err != nil || line == 0 || line < 2 || buf[line-2] != '\r' {
		return false, err
	}
	if _, bad := parseRequestLine(string(buf[:line-2])); bad != nil {
		return false, nil
	}
	end, err := t.until(c, &buf, "\r\n\r\n")
	if err != nil {
		return false, err
	}
	h, bad := parseHead(buf[:end], t.o.Limits.HeaderFields)
	if bad == nil {
		bad = checkRouting(h)
	}
	if bad != nil {
		return false, bad
	}
	host, err := classifier.CanonicalAuthority(h.host, runtime.DefaultPort("http"))
	if err != nil {
		return false, invalidHost("the Host field is not a valid host and port", h.host, err)
	}
	if host != authority {
		return false, misdirected("CONNECT", authority, "the request", host)
	}
	return true, nil
}

// until reads into buf until it holds mark and returns the length up to and
// including it; 0 when the limit or the client's end came first.
func (t *Tunnel) until(c *taken, buf *[]byte, mark string) (int, error) {
	for {
		if i := bytes.Index(*buf, []byte(mark)); i >= 0 {
			return i + len(mark), nil
		}
		if len(*buf) > t.o.Limits.HeaderBytes {
			return 0, nil
		}
		more := make([]byte, 2<<10)
		n, err := c.Read(more)
		*buf = append(*buf, more[:n]...)
		switch {
		case n > 0:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 0, slow(err)
		default:
			return 0, nil
		}
	}
}

func slow(err error) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeTimeout, Stage: runtime.StageExecute,
		Msg: "the client began a TLS hello or a request and did not finish it", Err: err,
	}
}
