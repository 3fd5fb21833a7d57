//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"testing"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// Who was answered to the end while it sent hears something behind its own end, whatever it
// was answered and however its body ends: libcurl 7.88 does not look at the answer before, and
// without it waits for ever. It is given room that it has used, and one byte where it has used
// none. A body that had ended before the answer did gets nothing.
func TestTheEndOfABodyThatWasAnsweredIsHeard(t *testing.T) {
	accepts := func(st *http2.Stream) {
		_ = st.Start(201, nil, nil, http2.Soon)
		_, _ = st.Write([]byte("early"), http2.Nothing)
	}
	empty := func(st *http2.Stream) { _ = st.Start(204, nil, nil, http2.Nothing) }
	data := func(n int, end bool) func(*client, uint32) {
		return func(c *client, id uint32) { _ = c.WriteData(id, end, make([]byte, n)) }
	}
	for name, test := range map[string]struct {
		handler func(*http2.Stream)
		send    func(*client, uint32) // behind the answer; nil: the body has ended with its head
		most    int                   // that may be given back
	}{
		"accepted":     {accepts, data(10<<10, true), 10 << 10},
		"no content":   {empty, data(10<<10, true), 10 << 10},
		"refused":      {refuses, data(10<<10, true), 10 << 10},
		"nothing more": {accepts, data(0, true), 1},
		"trailers":     {accepts, func(c *client, id uint32) { _ = c.Send(id, true, c.Block("x-sum 7")) }, 1},
		"ended before": {accepts, nil, 0},
		"does not end": {accepts, data(10<<10, false), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.handler, func(o *http2.Options) { o.QuietTime = patience })
			c := r.client()
			_ = c.until(func(f framing.Frame) bool { // of the connection as it begins
				update, ok := f.(*framing.WindowUpdateFrame)
				return ok && update.StreamID == 0
			})
			for range 3 {
				id := c.open(test.send == nil, "/")
				given := c.givenBehind(id, func() {
					if test.send != nil {
						test.send(c, id)
					}
				})
				if given > test.most || (given == 0) != (test.most == 0) {
					t.Errorf("%d bytes were given back, of %d", given, test.most)
				}
			}
		})
	}
}

// givenBehind sends something once an answer has ended, and returns what the connection was
// given before the server had read that, and before it read anything that followed.
func (c *client) givenBehind(id uint32, send func()) (given int) {
	c.r.t.Helper()
	ended := false
	err := c.until(func(f framing.Frame) bool {
		head := f.Header()
		if !ended && head.StreamID == id && head.Flags.Has(framing.FlagDataEndStream) && head.Type != framing.FrameWindowUpdate {
			ended = true
			send()
			_ = c.WritePing(false, [8]byte{1})
		}
		switch f := f.(type) {
		case *framing.WindowUpdateFrame:
			if f.StreamID == 0 {
				given += int(f.Increment)
			}
		case *framing.PingFrame:
			return f.IsAck()
		}
		return false
	})
	if err != nil {
		c.r.t.Error(err)
	}
	return given
}
