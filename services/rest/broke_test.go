//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has accepted itself

package rest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// bad is a body over which something panics, on whatever goroutine reads it.
type bad struct{}

func (bad) Read([]byte) (int, error) { panic("nobody thought of this body") }

// badTrailer is whole until its trailer fields are asked for.
func badTrailer() http.Header { panic("nobody thought of these trailer fields") }

type badHalting struct{ bad }

func (badHalting) Halt() {}

// deaf is a caller whose surface panics over a 1xx answer.
type deaf struct{ runtimetest.Responder }

func (*deaf) Informational(int, http.Header) error { panic("nobody thought of this status") }

// badConn is a connection to the upstream over whose bytes something panics.
type badConn struct{ net.Conn }

func (c badConn) Read(p []byte) (int, error) {
	_, _ = c.Conn.Read(p)
	panic("nobody thought of these bytes")
}

type badDialer struct{ dialer }

func (d *badDialer) Dial(ctx context.Context, authority string, trusted, loopback bool) (net.Conn, string, bool, error) {
	conn, address, private, err := d.dialer.Dial(ctx, authority, trusted, loopback)
	return badConn{conn}, address, private, err
}

// serveStreams answers every stream, with a 1xx first where it is asked for.
func serveStreams(conn net.Conn) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/103" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.WriteHeader(http.StatusOK)
	}
	(&http2.Server{}).ServeConn(conn, &http2.ServeConnOpts{Handler: http.HandlerFunc(answer)})
}

// What panics over what the caller or the upstream has sent fails one request, on whatever
// goroutine it runs: the process goes on.
func TestAPanicOverBytesFailsOneRequest(t *testing.T) {
	for name, up := range map[string]servicestest.Options{"HTTP/1.1": {}, "HTTP/2": {H2: serveStreams}} {
		for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
			t.Run(proto+" to "+name, func(t *testing.T) {
				r := newRig(t, up)
				post := func() *runtime.Call {
					call := r.call("POST", "/echo")
					call.Request.Raw.Proto = proto
					return call
				}
				r.refused(t, body(post(), bad{}, 9), runtime.CodeInternal, "")
				r.refused(t, body(post(), badHalting{}, -1), runtime.CodeInternal, "")
				trailed := body(post(), http.NoBody, -1)
				trailed.Request.Raw.Trailer, trailed.Request.Raw.Announced = badTrailer, []string{"X-Sum"}
				r.refused(t, trailed, runtime.CodeInternal, "")
				r.must(t, post())

				hint := post()
				hint.Request.Target.Path = "/103"
				if _, err := r.backend.Execute(t.Context(), hint, &deaf{}); runtime.CodeOf(err) != runtime.CodeInternal {
					t.Errorf("a 1xx answer: %v", err)
				}
				broken := newRig(t, up, func(o *rest.Options) { o.Dialer = &badDialer{} })
				call := broken.call("POST", "/echo")
				call.Request.Raw.Proto = proto
				if _, _, err := broken.do(t, call); err == nil || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the handshake: %v", err)
				}
			})
		}
	}
}
