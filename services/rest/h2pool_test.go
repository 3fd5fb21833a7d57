package rest_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
)

// Requests share a connection up to what the upstream allows, then there is a
// second one; each is answered.
func TestConnectionsAreSharedOnH2(t *testing.T) {
	var at, most atomic.Int64
	r := newRig(t, handled(10, func(w http.ResponseWriter, q *http.Request) {
		for n := at.Add(1); ; {
			if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		defer at.Add(-1)
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(w, q.URL.Path)
	}))
	r.proto = "HTTP/2.0"
	r.must(t, r.call("GET", "/first")) // the settings have come
	var wait sync.WaitGroup
	for i := range 30 {
		wait.Go(func() {
			for j := range 10 {
				path := fmt.Sprintf("/%d/%d", i, j)
				answer, _, err := r.do(t, r.call("GET", path))
				for err != nil && strings.Contains(err.Error(), "PROTOCOL_ERROR") {
					// The double counts a stream until it knows that the end of it was written,
					// which the next request may overtake.
					answer, _, err = r.do(t, r.call("GET", path))
				}
				if err != nil || answer.Body != path {
					t.Errorf("%s: %q %v", path, answer.Body, err)
				}
			}
		})
	}
	wait.Wait()
	if n := r.Connections(); n > 5 { // three, but for one that is dialled while another is there
		t.Errorf("%d connections for 30 requests at a time, 10 on each", n)
	}
	if most.Load() < 2 {
		t.Error("requests went one by one")
	}
}

// Connections that were dialled under one trust are not used under another.
func TestTrustIsNotShared(t *testing.T) {
	r := newRig(t, handled(0, func(http.ResponseWriter, *http.Request) {}))
	r.must(t, r.call("GET", "/"))
	other := r.call("GET", "/")
	other.Request.Caller.Token = runtime.NewSecret("kmb_x")
	r.must(t, other)
	r.must(t, other)
	r.must(t, r.call("GET", "/"))
	equal(t, "connections", r.Connections(), 2)
}

// What the upstream has not acted on is sent again on another connection, if
// the body can be.
func TestUnprocessedRequestsGoAgain(t *testing.T) {
	for name, refuse := range map[string]func(f *frames, stream uint32){
		"GOAWAY before it":      func(f *frames, stream uint32) { _ = f.WriteGoAway(stream-2, http2.ErrCodeNo, nil) },
		"the stream is refused": func(f *frames, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) },
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			refused, read := map[string]bool{}, make(chan struct{})
			r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				path := h.PseudoValue("path")
				mu.Lock()
				first := h.StreamID > 1 && !refused[path]
				refused[path] = refused[path] || first
				mu.Unlock()
				if first {
					if path == "/stream" {
						<-read // before that it may go again
					}
					refuse(f, h.StreamID)
					return
				}
				f.head(h.StreamID, true, ":status 200")
			}))
			r.must(t, r.call("GET", "/")) // stream 1
			r.must(t, r.call("GET", "/again"))
			r.must(t, r.call("GET", "/"))
			whole := r.call("POST", "/whole")
			whole.Request.Raw = nil
			whole.Action.HTTP.Method, whole.Action.HTTP.Path = "POST", "/whole"
			r.must(t, whole)
			r.must(t, r.call("GET", "/"))
			reader, writer := io.Pipe()
			go func() {
				_, _ = io.WriteString(writer, "x")
				close(read)
				_ = writer.CloseWithError(io.ErrUnexpectedEOF)
			}()
			if _, _, err := r.do(t, body(r.call("POST", "/stream"), reader, -1)); err == nil {
				t.Error("a body that was read from was sent again")
			}
			_ = reader.Close()
		})
	}
}

// An upstream that never acts on a request is asked three times in all, with any method, and
// then it is told.
func TestUnprocessedRequestsGoAgainTwiceAtMost(t *testing.T) {
	var asked atomic.Int32
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		asked.Add(1)
		_ = f.WriteRSTStream(h.StreamID, http2.ErrCodeRefusedStream)
	}))
	for _, method := range []string{"GET", "DELETE"} {
		asked.Store(0)
		r.refused(t, r.call(method, "/"), runtime.CodeUpstream, runtime.ReasonUpstreamUnavailable)
		equal(t, method+": times", asked.Load(), 3)
	}
}

// GOAWAY lets the running requests finish and no new one begin.
func TestGoAwayFinishes(t *testing.T) {
	r := newRig(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.head(h.StreamID, false, ":status 200")
		if h.PseudoValue("path") == "/last" {
			_ = f.WriteGoAway(h.StreamID, http2.ErrCodeNo, nil)
		}
		_ = f.WriteData(h.StreamID, true, []byte("done"))
	}))
	answer, _ := r.must(t, r.call("GET", "/last"))
	equal(t, "the running one", answer.Body, "done")
	r.must(t, r.call("GET", "/next"))
	equal(t, "connections", r.Connections(), 2)
}

// What goes wrong before a request leaves is told as ever.
func TestDialErrorsOnH2(t *testing.T) {
	refusing := newRig(t, handled(0, nil), func(o *rest.Options) { o.Dialer = refuser{} })
	refusing.refused(t, refusing.call("GET", "/"), runtime.CodeEgressDenied, "")
	ours := errors.New("a root of ours")
	untrusted := newRig(t, handled(0, nil), func(o *rest.Options) {
		o.TLS.VerifyConnection = func(tls.ConnectionState) error { return ours }
	})
	e := untrusted.refused(t, untrusted.call("GET", "/"), runtime.CodeUpstreamTLS, "")
	if !errors.Is(e, ours) || !errors.Is(e, runtime.ErrNotSent) {
		t.Errorf("the cause is lost: %v", e)
	}
	silent := newRig(t, framed(func(*frames, *http2.MetaHeadersFrame) {}), func(o *rest.Options) { o.HeaderTimeout = 50 * time.Millisecond })
	silent.refused(t, silent.call("GET", "/"), runtime.CodeTimeout, "")
}
