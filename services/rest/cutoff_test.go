package rest_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// plainEnd ends the connection without a word of TLS, as anybody on the way can.
func plainEnd(c *servicestest.Conn) bool {
	if secured, ok := c.Conn.(*tls.Conn); ok {
		_ = secured.NetConn().(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, secured.NetConn())
	}
	return false
}

// An answer that only the end of its connection ends is cut off when TLS did not
// say that it ends (RFC 9112 section 9.8), wherever between its records that is.
func TestAnEndThatTLSDidNotSayIsNone(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, size := range []int{0, 7, 5000, 100_000} {
			o := servicestest.Options{TLS: func(c *tls.Config) { c.MaxVersion = version }, Routes: map[string]servicestest.Behave{
				"/cut": func(c *servicestest.Conn, _ *servicestest.Request) bool {
					c.Send(untilTheEnd(size))
					return plainEnd(c)
				},
				"/whole": func(c *servicestest.Conn, _ *servicestest.Request) bool { c.Send(untilTheEnd(size)); return false },
			}}
			r := newRig(t, o, func(o *rest.Options) { o.VerifyMutations = false })
			answer, _, err := r.do(t, pass(r.call("GET", "/cut")))
			if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTruncated || answer.Aborted == nil {
				t.Errorf("%s, cut after %d bytes: %v", tls.VersionName(version), size, err)
			}
			answer, _ = r.must(t, pass(r.call("GET", "/whole")))
			equal(t, "bytes", len(answer.Body), size)
		}
	}
}

func untilTheEnd(size int) string {
	return "HTTP/1.1 200 OK\r\n\r\n" + string(make([]byte, size))
}

// late is a responder whose first write waits.
type late struct {
	*runtimetest.Responder
	wait func()
}

func (l *late) Write(p []byte) (int, error) {
	if l.wait != nil {
		l.wait()
		l.wait = nil
	}
	return l.Responder.Write(p)
}

// telling dials connections that tell when a write fails.
type telling struct{ failed chan struct{} }

func (d *telling) Dial(ctx context.Context, authority string, _, _ bool) (net.Conn, string, bool, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", authority)
	return &tells{conn, d, sync.Once{}}, authority, true, err
}

type tells struct {
	net.Conn
	of   *telling
	once sync.Once
}

func (c *tells) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		c.once.Do(func() { close(c.of.failed) })
	}
	return n, err
}

// endless is a body that goes on, byte by byte.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return copy(p, "x"), nil
}

// A reset is told once. When the upload hears of it, the answer finds nothing but
// an end; it is cut off all the same.
func TestAResetThatTheUploadHearsOfCutsTheAnswer(t *testing.T) {
	reset := make(chan struct{})
	o := routes("/reset", func(c *servicestest.Conn, _ *servicestest.Request) bool {
		c.Send("HTTP/1.1 200 OK\r\n\r\nsome of it")
		<-reset
		return c.Reset()
	})
	o.Cleartext = true
	dialer := &telling{make(chan struct{})}
	r := unwatched(t, o, func(o *rest.Options) { o.Dialer = dialer })
	out := &late{Responder: &runtimetest.Responder{}, wait: func() {
		close(reset)
		<-dialer.failed
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := r.backend.Execute(ctx, body(pass(r.call("POST", "/reset")), endless{}, -1), out)
	if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTruncated {
		t.Errorf("%v after %q", err, out.Answer().Body)
	}
}
