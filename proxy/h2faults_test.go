package proxy

import (
	"context"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// A fault of the client that ends its whole connection is what is recorded of the requests
// it had open, with a body or without, and not a client that went away, which is another.
func TestH2FaultsOfTheConnection(t *testing.T) {
	grow := func(c *rawH2) error { return c.WriteWindowUpdate(0, 1<<31-1) }
	for name, c := range map[string]struct {
		fault func(c *rawH2) error
		want  runtime.Code
	}{
		"data of no stream":  {func(c *rawH2) error { return c.WriteRawFrame(http2.FrameData, 0, 0, []byte("x")) }, runtime.CodeAmbiguousTarget},
		"a window too large": {grow, runtime.CodeAmbiguousTarget},
		"bad HPACK": {func(c *rawH2) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndStream: true, EndHeaders: true})
		}, runtime.CodeAmbiguousTarget},
		"a frame too large": {func(c *rawH2) error { return c.WriteRawFrame(0xbe, 0, 0, make([]byte, frameSize+1)) }, runtime.CodeAmbiguousTarget},
		"a flood": {func(c *rawH2) (err error) {
			for n := 0; n < 10_000 && err == nil; n++ {
				err = c.WritePriority(1, http2.PriorityParam{Weight: 3})
			}
			return nil // it is not read to its end
		}, runtime.CodeRateLimited},
		"none": {func(c *rawH2) error { return c.conn.Close() }, runtime.CodeCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{}, 2)
			r := newRig(t, func(_ *Options, st *stages) {
				st.execute = func(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
					begun <- struct{}{}
					return told(true)(ctx, call, out)
				}
			})
			raw := r.rawH2("api.good.test:443")
			raw.open(true, goodHead...)
			raw.open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open")
			<-begun
			<-begun
			if err := c.fault(raw); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if rec := r.outcome(); rec.Err == nil || rec.Err.Code != c.want {
					t.Errorf("%s recorded %v", rec.Target.Method, rec.Err)
				}
			}
		})
	}
}
