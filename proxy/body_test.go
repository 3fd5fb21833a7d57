package proxy

import (
	"bytes"
	"context"
	"io"
	"net/http"
	goruntime "runtime"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
)

// Whatever ends a request while the backend waits for more of its body interrupts that
// first: net/http panics when a second one reads. The connection ends, and says so where
// it still can.
func TestTheBodyIsTakenBackBeforeItsRequestEnds(t *testing.T) {
	t.Parallel()
	tooLong := &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "too long"}
	for name, c := range map[string]struct {
		end    func(out runtime.Responder) (runtime.Result, error)
		status int
		told   bool
	}{
		"an answer": {func(out runtime.Responder) (runtime.Result, error) {
			return reply(out, runtime.Form{}, 413, http.Header{"Content-Length": {"2"}}, "no")
		}, 413, true},
		"a stream": {func(out runtime.Responder) (runtime.Result, error) { // may go on beside the body
			return reply(out, runtime.Form{}, 200, http.Header{}, "no")
		}, 200, false},
		"a refusal": {func(runtime.Responder) (runtime.Result, error) { return runtime.Result{}, tooLong }, 400, true},
		"a panic":   {func(runtime.Responder) (runtime.Result, error) { panic("of a backend") }, 500, true},
	} {
		for _, framing := range []string{"Content-Length: 20\r\n\r\nhalf", "Content-Length: 1000000\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"} {
			t.Run(name+" "+framing[:len("Content-Length: 20")], func(t *testing.T) {
				t.Parallel()
				reading := make(chan error, 1)
				var twice atomic.Bool
				r := newRig(t, func(o *Options, st *stages) {
					o.Engine = EngineStd
					o.Log = zerolog.New(writerFunc(func(p []byte) (int, error) {
						if bytes.Contains(p, []byte("concurrent")) {
							twice.Store(true)
						}
						return len(p), nil
					}))
					st.execute = func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
						b := call.Request.Raw.Body.(*body)
						if _, err := io.ReadFull(b, make([]byte, 4)); err != nil {
							return runtime.Result{}, err
						}
						go func() { _, err := b.Read(make([]byte, 1)); reading <- err }()
						for b.mu.TryLock() { // until it reads
							b.mu.Unlock()
							goruntime.Gosched()
						}
						return c.end(out)
					}
				})
				inside := r.open("api.good.test:443")
				inside.send("POST /open HTTP/1.1\r\nHost: api.good.test\r\nContent-Type: text/plain\r\n" + framing)
				if resp, _ := inside.get("POST"); resp.StatusCode != c.status || resp.Close != c.told {
					t.Errorf("%s, says that the connection ends: %t", resp.Status, resp.Close)
				}
				inside.ended()
				if err := <-reading; err == nil {
					t.Error("the body goes on after the request")
				}
				if twice.Load() {
					t.Error("two read at once")
				}
			})
		}
	}
}
