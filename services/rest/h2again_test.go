package rest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/services/servicestest"
)

// refusesOnce reads a request to its end and takes it only when it comes a second time.
func refusesOnce(came *atomic.Int32, refuse func(f *frames, stream uint32)) servicestest.Options {
	return servicestest.Options{H2: func(c net.Conn) {
		f := begin(c)
		data, trailer := "", ""
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			s := frame.Header().StreamID
			switch frame := frame.(type) {
			case *http2.DataFrame:
				data += string(frame.Data())
				_ = f.WriteWindowUpdate(0, uint32(len(frame.Data()))+1)
				_ = f.WriteWindowUpdate(s, uint32(len(frame.Data()))+1)
			case *http2.MetaHeadersFrame:
				if trailer = ""; frame.PseudoValue("method") == "" {
					trailer = fmt.Sprint(frame.RegularFields())
				} else if data = ""; frame.StreamEnded() { // one without a body
					f.head(s, true, ":status 200")
					continue
				}
			}
			if kind := frame.Header().Type; kind != http2.FrameData && kind != http2.FrameHeaders || !frame.Header().Flags.Has(http2.FlagDataEndStream) {
				continue
			}
			if came.Add(1) == 1 {
				refuse(f, s)
				continue
			}
			f.head(s, false, ":status 200")
			_ = f.WriteData(s, true, []byte(data+trailer))
		}
	}}
}

// A short upload that was not acted on is sent again like a request without one: an upstream
// that ends its connection refuses whatever came too late, and a client of its own would have
// done so.
func TestShortUploadsGoAgain(t *testing.T) {
	for name, refuse := range map[string]func(f *frames, stream uint32){
		"GOAWAY before it":      func(f *frames, stream uint32) { _ = f.WriteGoAway(stream-2, http2.ErrCodeNo, nil) },
		"the stream is refused": func(f *frames, stream uint32) { _ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) },
	} {
		for _, size := range []int{0, 1, 4000, 5000} {
			for _, length := range []int64{-1, int64(size)} {
				if length == 0 { // no body
					continue
				}
				t.Run(fmt.Sprint(name, ", ", size, " bytes, length ", length), func(t *testing.T) {
					var came atomic.Int32
					r := newRig(t, refusesOnce(&came, refuse))
					r.proto = "HTTP/2.0"
					r.must(t, r.call("GET", "/"))
					text := strings.Repeat("x", size)
					call := body(r.call("POST", "/"), io.MultiReader(strings.NewReader(text)), length)
					want := text
					if length < 0 {
						call.Request.Raw.Announced = []string{"X-Sum"}
						call.Request.Raw.Trailer = func() http.Header { return http.Header{"X-Sum": {"7"}} }
						want += `[header field "x-sum" = "7"]`
					}
					answer, result, err := r.do(t, call)
					if size > 4<<10 {
						if err == nil || came.Load() != 1 {
							t.Errorf("%v, it came %d times", err, came.Load())
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					equal(t, "body", answer.Body, want)
					equal(t, "times", came.Load(), 2)
					equal(t, "bytes out", result.BytesOut, int64(size))
				})
			}
		}
	}
}
