package rest_test

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
)

// A call of gRPC whose client has not ended it and whose server says nothing has the idle time
// from whenever the client said something, and not the time for a head, which begins at its end.
func TestACallThatNobodyMovesHasTheIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const idle = 400 * time.Millisecond
		calling := func(idle time.Duration, on func(f *frames, h *http2.MetaHeadersFrame)) (*rig, *runtime.Call, *io.PipeWriter) {
			upstream, dial := bubbled(framed(on))
			r := newRig(t, upstream, dial, func(o *rest.Options) { o.HeaderTimeout, o.IdleTimeout = time.Hour, idle })
			client, says := io.Pipe()
			t.Cleanup(func() { _ = says.Close() })
			return r, body(r.call("POST", "/service/call", "Content-Type: application/grpc"), client, -1), says
		}
		silent := func(*frames, *http2.MetaHeadersFrame) {}
		last := make(chan struct{})
		talking, call, says := calling(2*idle, func(f *frames, h *http2.MetaHeadersFrame) {
			<-last
			f.head(h.StreamID, true, ":status 200", "content-type application/grpc", "grpc-status 0")
		})
		answered := make(chan error, 1)
		go func() { _, _, err := talking.do(t, call); answered <- err }()
		for range 3 { // in all longer than the time of who talks
			_, _ = io.WriteString(says, "news")
			r, call, _ := calling(idle, silent)
			if e := r.refused(t, call, runtime.CodeTimeout, ""); !strings.Contains(e.Hint, "upstream.idle_timeout") {
				t.Errorf("the hint is %q", e.Hint)
			}
		}
		close(last)
		if err := <-answered; err != nil {
			t.Errorf("who says something ended with %v", err)
		}
	})
}
