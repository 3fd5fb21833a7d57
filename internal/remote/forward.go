package remote

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxForwarded is how many connections a [Forwarder] has open; more wait in the
// kernel's queue.
const maxForwarded = 1024

// headLimit is how long a connection's first head may take where it must be read.
const headLimit = 10 * time.Second

// Forwarder hands connections of programs of this machine to a proxy elsewhere. It
// reads nothing of them, but for who opened them, and where the proxy must be shown a
// token the first head.
type Forwarder struct {
	// Borrow opens a connection of that proxy.
	Borrow func(ctx context.Context) (net.Conn, error)
	// Owner reports whether the kernel says that this user opened the connection.
	Owner func(c net.Conn) bool
	// Token is what other connections must show (Proxy-Authorization: Basic); empty:
	// they are turned away. It is worth nothing at the other side.
	Token string
	// Introduce, where it is not empty, is the token for a bare proxy at the other
	// side, which knows nobody by the connection: the first request of each one shows
	// it there, and is the last one. What a client shows is left out.
	Introduce runtime.Secret
	// Say is told, once until one succeeds, why the proxy cannot be had.
	Say func(err error)

	mu   sync.Mutex
	said bool
}

// Serve takes connections from ln, which it owns, until ctx ends. Then it closes
// those that are open, and returns when all are. It may be called for several
// listeners at a time.
func (f *Forwarder) Serve(ctx context.Context, ln net.Listener) error {
	var open sync.WaitGroup
	defer open.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	room := make(chan struct{}, maxForwarded)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := accept(ctx, ln)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		open.Go(func() {
			defer func() { <-room }()
			defer func() { _ = conn.Close() }()
			f.forward(ctx, conn)
		})
	}
}

// accept takes the next connection. When descriptors run out it waits for one to come
// free: the connections that are open go on.
func accept(ctx context.Context, ln net.Listener) (net.Conn, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		conn, err := ln.Accept()
		var temporary interface{ Temporary() bool }
		if err == nil || !errors.As(err, &temporary) || !temporary.Temporary() || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// forward serves one connection.
func (f *Forwarder) forward(ctx context.Context, conn net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	head, ok := f.opening(conn)
	if !ok {
		return
	}
	there, err := f.Borrow(ctx)
	f.tell(err)
	if err != nil {
		turnAway(conn, http.StatusBadGateway, runtime.AsError(err))
		return
	}
	defer func() { _ = there.Close() }()
	defer context.AfterFunc(ctx, func() { _ = there.Close() })()
	if len(head) > 0 {
		if _, err := there.Write(head); err != nil {
			return
		}
	}
	splice(conn, there)
}

func (f *Forwarder) tell(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil && !f.said && !errors.Is(err, context.Canceled) {
		f.Say(err)
	}
	f.said = err != nil
}

// errLongHead is a head over maxHead.
var errLongHead = errors.New("the head of a request is too long")

// readHead reads the first head of a connection. What was read, which may be more than
// that, comes before the rest.
func readHead(conn net.Conn) (read []byte, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(headLimit))
	buffer := make([]byte, 0, 4<<10)
	for !bytes.Contains(buffer, []byte("\r\n\r\n")) {
		if len(buffer) >= maxHead {
			return nil, errLongHead
		}
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, len(buffer))
		}
		n, err := conn.Read(buffer[len(buffer):min(cap(buffer), maxHead)])
		if err != nil {
			return nil, err
		}
		buffer = buffer[:len(buffer)+n]
	}
	_ = conn.SetReadDeadline(time.Time{})
	return buffer, nil
}

// admitted reports whether a head shows the token.
func (f *Forwarder) admitted(read []byte) bool {
	head, _, _ := strings.Cut(string(read), "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if strings.EqualFold(name, "Proxy-Authorization") && f.shows(strings.TrimSpace(value)) {
			return true
		}
	}
	return false
}

// shows reports whether a Proxy-Authorization holds the token, as user or password.
func (f *Forwarder) shows(value string) bool {
	scheme, rest, _ := strings.Cut(value, " ")
	plain, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil || !strings.EqualFold(scheme, "Basic") || f.Token == "" {
		return false
	}
	user, password, _ := strings.Cut(string(plain), ":")
	same := func(text string) bool { return subtle.ConstantTimeCompare([]byte(text), []byte(f.Token)) == 1 }
	return same(user) || same(password)
}

// turnAway answers a connection that cannot be forwarded, and closes it. What it
// sent is read, since a close over unread bytes could take the answer with it.
func turnAway(conn net.Conn, status int, e *runtime.Error) {
	p := e.Problem()
	p.Status = status
	body, err := json.Marshal(p)
	if err != nil { // cannot be: strings and a number
		return
	}
	fields := ""
	if status == http.StatusProxyAuthRequired {
		fields = "Proxy-Authenticate: Basic realm=\"kimbap\"\r\n"
	}
	_ = conn.SetDeadline(time.Now().Add(headLimit))
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nConnection: close\r\n%sContent-Type: %s\r\nContent-Length: %d\r\nKimbap-Error: %s\r\n\r\n%s",
		status, http.StatusText(status), fields, runtime.ProblemType, len(body), e.Code, body); err != nil {
		return
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxHead))
	}
}

// splice carries bytes both ways until both ends have ended. An end that is not a
// clean one is passed on as none: what was cut off does not look complete.
func splice(a, b net.Conn) {
	var both sync.WaitGroup
	carry := func(to, from net.Conn) {
		if _, err := io.Copy(to, from); err != nil {
			abort(a)
			abort(b)
			return
		}
		if half, ok := to.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}
	both.Go(func() { carry(a, b) })
	both.Go(func() { carry(b, a) })
	both.Wait()
}

// abort closes such that the other end sees a reset.
func abort(c net.Conn) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn() // TLS does not say goodbye
	}
	if tcp, ok := c.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
