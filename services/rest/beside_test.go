package rest_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// paused is the body of a caller that sends a part and then waits for the upstream. Taken
// back, it ends.
type paused struct {
	part io.Reader
	back context.Context
	end  func()
}

func (p paused) Read(b []byte) (int, error) {
	if n, err := p.part.Read(b); err == nil {
		return n, nil
	}
	<-p.back.Done()
	return 0, io.ErrClosedPipe
}

// halted is one that a Read which waits can be called off of, as those of streams are.
type halted struct{ paused }

func (h halted) Halt() { h.end() }

// A caller that pauses in its body hears that the upstream is gone, before the answer and in
// the middle of it: it may wait for just that.
func TestTheEndOfTheUpstreamIsToldInTheMiddleOfTheBody(t *testing.T) {
	h1 := func(answer string) servicestest.Options {
		return servicestest.Options{Routes: map[string]servicestest.Behave{"/upload": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			_, _ = io.ReadFull(c, make([]byte, 4)) // of the body
			c.Send(answer)
			return c.Reset()
		}}}
	}
	h2 := func(answers bool) servicestest.Options {
		return servicestest.Options{H2: func(conn net.Conn) {
			f := begin(conn)
			for {
				frame, err := f.ReadFrame()
				if err != nil {
					return
				}
				data, ok := frame.(*http2.DataFrame)
				switch {
				case !ok:
					continue
				case answers:
					f.head(data.StreamID, false, ":status 200")
					_ = f.WriteData(data.StreamID, false, []byte("half"))
				}
				_ = conn.Close()
				return
			}
		}}
	}
	for name, c := range map[string]struct {
		up     servicestest.Options
		proto  string
		reason runtime.Reason
	}{
		"HTTP/1.1, no answer":         {h1(""), "HTTP/1.1", runtime.ReasonUpstreamUnavailable},
		"HTTP/1.1, half an answer":    {h1("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "HTTP/1.1", runtime.ReasonTruncated},
		"2 to HTTP/1.1, no answer":    {h1(""), "HTTP/2.0", runtime.ReasonUpstreamUnavailable},
		"HTTP/2, no answer":           {h2(false), "HTTP/2.0", runtime.ReasonUpstreamUnavailable},
		"HTTP/2, half an answer":      {h2(true), "HTTP/2.0", runtime.ReasonTruncated},
		"1.1 to HTTP/2, no answer":    {h2(false), "HTTP/1.1", runtime.ReasonUpstreamUnavailable},
		"1.1 to HTTP/2, half of it":   {h2(true), "HTTP/1.1", runtime.ReasonTruncated},
		"2 to HTTP/1.1, half of that": {h1("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "HTTP/2.0", runtime.ReasonTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.up)
			for _, halts := range []bool{false, true} {
				call := r.call("POST", "/upload")
				call.Request.Raw.Proto = c.proto
				back, end := context.WithCancel(t.Context())
				one := paused{io.LimitReader(zeros{}, 4), back, end}
				if halts {
					body(call, halted{one}, -1)
				} else {
					body(call, one, -1)
				}
				late := time.AfterFunc(10*time.Second, end)
				r.refused(t, call, runtime.CodeUpstream, c.reason)
				if !late.Stop() {
					t.Error("it was told when the caller went on")
				}
				end() // as the surface does, which takes the body back
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
