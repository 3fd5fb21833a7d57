package socket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Why a connection is not kept, in the error of [Keep].
var (
	errGone  = errors.New("the connection gave way to another one") // nobody hears an answer
	errShare = errors.New("its caller has as many connections as one caller may have")
)

// Watch makes a server tell its bounded listeners which connections wait for a request.
// It is called before the server serves.
func Watch(s *http.Server) {
	inner := s.ConnContext
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if inner != nil {
			ctx = inner(ctx, conn)
		}
		return context.WithValue(ctx, connKey{}, conn)
	}
	s.ConnState = func(conn net.Conn, state http.ConnState) {
		if c, is := conn.(*Conn); is && state == http.StateIdle {
			c.of.changed(c.rest)
		}
	}
}

// connKey is the key of a connection in its context.
type connKey struct{}

// Keep lets the connection of a request stay until that is answered, since its caller is
// known, and counts it as the caller's: who has its share with requests under way keeps no
// more. Of a connection that is not kept nothing may be done but to refuse. The place is
// the caller's until the answer is out, so that not reading it wins no second one.
func Keep(ctx context.Context, owner string) error {
	c, is := ctx.Value(connKey{}).(*Conn)
	if !is {
		return nil
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, there := c.of.all[c]; !there {
		return refused(errGone)
	}
	if c.of.kept(owner) >= c.of.share() {
		return refused(errShare)
	}
	c.owner, c.silent = owner, time.Time{}
	return nil
}

// refused is what the caller is told; of a connection that gave way nobody hears it.
func refused(why error) error {
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Msg: "too many of this caller's requests are not answered yet",
		Hint: "wait for answers first", RetryAfter: time.Second, Err: why,
	}
}

// kept is how many connections an owner has requests under way on. The lock is held.
func (b *bounded) kept(owner string) (n int) {
	for one := range b.all {
		if one.owner == owner && one.silent.IsZero() {
			n++
		}
	}
	return n
}

// rest says that a connection has answered, and waits for a request. One that was not kept
// is as silent as it was: who is refused stays no longer for asking again. The lock is held.
func (c *Conn) rest() {
	c.written, c.spent = 0, 0
	if c.silent.IsZero() {
		c.silent = c.of.Clock()
	}
}
