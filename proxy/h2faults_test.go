package proxy

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
		"a head without end": {func(c *rawH2) error {
			part := bytes.Repeat([]byte{0, 1, 'x', 0}, frameSize/4) // the field x is empty
			err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: part, EndStream: true})
			for n := 0; n < 100 && err == nil; n++ {
				err = c.WriteContinuation(5, false, part)
			}
			return nil // it is not read to its end
		}, runtime.CodeInvalidInput},
		"a field without end": {func(c *rawH2) error { // it says that it has two megabytes
			part := []byte{0, 1, 'x', 0x7f, 0xff, 0xff, 0x7f}
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: part, EndStream: true, EndHeaders: true})
		}, runtime.CodeInvalidInput},
		"none": {func(c *rawH2) error { return c.Conn.Close() }, runtime.CodeCanceled},
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
			raw.Open(true, goodHead...)
			raw.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open")
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

// What follows a body that says it is empty is not lost without a word: the request waits
// for its end, and the trailer fields that come with it are declared.
func TestH2TrailersOfAnEmptyBody(t *testing.T) {
	tail := func(fields ...hpack.HeaderField) func(c *rawH2, stream uint32) error {
		return func(c *rawH2, stream uint32) error {
			var block []string
			for _, f := range fields {
				block = append(block, f.Name+" "+f.Value)
			}
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.Block(block...), EndStream: true, EndHeaders: true})
		}
	}
	for name, c := range map[string]struct {
		end  func(c *rawH2, stream uint32) error
		lost []string
		want runtime.Code
	}{
		"trailers":       {tail(hpack.HeaderField{Name: "x-sum", Value: "42"}, hpack.HeaderField{Name: "x-late", Value: "1"}), []string{"X-Late", "X-Sum"}, ""},
		"no trailers":    {func(c *rawH2, stream uint32) error { return c.WriteData(stream, true, nil) }, nil, ""},
		"a byte of data": {func(c *rawH2, stream uint32) error { return c.WriteData(stream, true, []byte("x")) }, nil, runtime.CodeAmbiguousTarget},
		"taken back":     {func(c *rawH2, stream uint32) error { return c.WriteRSTStream(stream, http2.ErrCodeCancel) }, nil, runtime.CodeCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(_ *Options, st *stages) {
				st.execute = func(_ context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
					if call.Request.Raw.Body != nil {
						t.Error("there is a body")
					}
					return runtime.Result{Status: 204, Changed: call.Request.Raw.Changed}, out.Start(204, http.Header{})
				}
			})
			raw := r.rawH2("api.good.test:443")
			stream := raw.Open(false, ":method POST", ":scheme https", ":authority api.good.test", ":path /open", "content-length 0")
			if err := c.end(raw, stream); err != nil {
				t.Fatal(err)
			}
			rec := r.outcome()
			var lost []string
			for _, change := range rec.Result.Changed {
				if change.Kind == runtime.ChangeTrailer {
					lost = append(lost, change.Name)
				}
			}
			var code runtime.Code
			if rec.Err != nil {
				code = rec.Err.Code
			}
			if code != c.want || !slices.Equal(lost, c.lost) {
				t.Errorf("recorded %q, lost %q: %v", code, lost, rec.Err)
			}
		})
	}
}
