//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// What says nothing, or is taken back at once, over and over, ends the connection.
func TestFloods(t *testing.T) {
	for name, flood := range map[string]func(c *client) error{
		"PRIORITY":                                 func(c *client) error { return c.WritePriority(1, framing.PriorityParam{Weight: 3}) },
		"unknown frames":                           func(c *client) error { return c.WriteRawFrame(0xbe, 0, 0, nil) },
		"acknowledgements":                         func(c *client) error { return c.WriteSettingsAck() },
		"answers to no PING":                       func(c *client) error { return c.WritePing(true, [8]byte{}) },
		"settings":                                 func(c *client) error { return c.WriteSettings(make([]framing.Setting, 33)...) },
		"empty CONTINUATIONs":                      func(c *client) error { return c.WriteRawFrame(framing.FrameContinuation, 0, 1, nil) },
		"long CONTINUATIONs":                       func(c *client) error { return c.WriteRawFrame(framing.FrameContinuation, 0, 1, make([]byte, 1000)) },
		"empty data":                               func(c *client) error { return c.WriteData(1, false, nil) },
		"empty data behind the end":                func(c *client) error { return c.WriteData(1, false, nil) },
		"empty data where the stream is closed":    func(c *client) error { return c.WriteData(1, false, nil) },
		"empty data of one that we have reset":     func(c *client) error { return c.WriteData(1, false, nil) },
		"ends of one that we have reset":           func(c *client) error { return c.WriteData(1, true, nil) },
		"trailers of one that we have reset":       func(c *client) error { return c.trailers(1) },
		"RST_STREAM where the stream is closed":    func(c *client) error { return c.WriteRSTStream(1, framing.ErrCodeCancel) },
		"WINDOW_UPDATE where the stream is closed": func(c *client) error { return c.WriteWindowUpdate(1, 1) },
		"WINDOW_UPDATE by none where it is closed": func(c *client) error { return c.WriteRawFrame(framing.FrameWindowUpdate, 0, 1, make([]byte, 4)) },
		"opened and reset": func(c *client) error {
			id := c.open(true, "/")
			return c.WriteRSTStream(id, framing.ErrCodeCancel)
		},
		"opened and made to be reset": func(c *client) error { // CVE-2025-8671
			id := c.open(true, "/")
			return c.WriteWindowUpdate(id, 1<<31-1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			hold := make(chan struct{})
			var running, most atomic.Int32
			r := newRig(t, func(*http2.Stream) {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer running.Add(-1)
				<-hold
			}, nil)
			c := r.client()
			switch name {
			case "empty CONTINUATIONs", "long CONTINUATIONs":
				_ = c.WriteHeaders(framing.HeadersFrameParam{StreamID: c.Next(), BlockFragment: c.Block(":method GET")})
			case "empty data":
				c.open(false, "/")
			case "empty data behind the end":
				c.open(true, "/")
			}
			if strings.HasSuffix(name, "is closed") {
				c.open(false, "/")
				_ = c.WriteRSTStream(1, framing.ErrCodeCancel)
			}
			if strings.HasSuffix(name, "we have reset") {
				c.open(false, "/", "content-length 1")
				_ = c.WriteData(1, false, make([]byte, 2))
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 100_000 {
					if flood(c) != nil {
						return
					}
				}
			}()
			if code := c.ends(); code != framing.ErrCodeEnhanceYourCalm && code != framing.ErrCodeProtocol {
				t.Errorf("it ended with %v", code)
			}
			_ = r.conn.Close()
			<-done
			if n := most.Load(); n > 50 {
				t.Errorf("%d handlers at a time", n)
			}
			close(hold)
		})
	}
}

// A client that answers each frame of data with a WINDOW_UPDATE is no flood, though most of the
// answers come when the stream has ended.
func TestLateWindowUpdatesOfEveryFrame(t *testing.T) {
	const frames = 5000
	r := newRig(t, func(st *http2.Stream) {
		_ = st.Start(200, nil, nil, http2.More)
		for range frames {
			if _, err := st.Write([]byte("x"), http2.More); err != nil {
				return
			}
		}
		_ = st.End(nil)
	}, nil)
	c := r.client()
	id := c.open(true, "/")
	seen := 0
	if err := c.until(func(f framing.Frame) bool {
		data, ok := f.(*framing.DataFrame)
		if ok && len(data.Data()) > 0 {
			seen++
		}
		return ok && data.StreamEnded()
	}); err != nil {
		t.Fatal(err)
	}
	for range seen {
		if err := c.WriteWindowUpdate(id, 1); err != nil {
			t.Fatal(err)
		}
	}
	next := c.open(true, "/")
	if err := c.until(func(f framing.Frame) bool { return f.Header().StreamID == next }); err != nil {
		t.Errorf("after %d late frames: %v", seen, err)
	}
	if seen < 2500 {
		t.Fatalf("%d frames of data: the test shows nothing", seen)
	}
}

// A client that asks and does not read what it is told is cut off.
func TestPingsThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(*http2.Stream) {}, nil)
	c := r.client()
	_ = r.conn.SetWriteDeadline(time.Now().Add(patience))
	for range 3_000_000 {
		if err := c.WritePing(false, [8]byte{}); err != nil {
			r.left()
			return
		}
	}
	t.Error("the connection goes on")
}

// Streams beyond what was announced are refused, and others go on.
func TestTooManyStreams(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, func(st *http2.Stream) { <-hold; _ = st.Start(204, nil, nil, http2.Nothing) }, nil)
	c := r.client()
	for range 50 {
		c.open(true, "/")
	}
	if code := c.reset(c.open(true, "/")); code != framing.ErrCodeRefusedStream {
		t.Error(code)
	}
	close(hold)
	answered := 0
	if err := c.until(func(f framing.Frame) bool {
		if _, ok := f.(*framing.MetaHeadersFrame); ok {
			answered++
		}
		return answered == 50
	}); err != nil {
		t.Errorf("%d were answered: %v", answered, err)
	}
}

// More than a window has room for is a fault, and nothing more is kept of it.
func TestMoreThanTheWindow(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, func(*http2.Stream) { <-hold }, nil)
	defer close(hold)
	c := r.client()
	id := c.open(false, "/")
	for range 9 {
		_ = c.WriteData(id, false, make([]byte, 15<<10))
	}
	if code := c.reset(id); code != framing.ErrCodeFlowControl {
		t.Errorf("of a stream: %v", code)
	}
	for range 3 { // what lies unread is given back when its stream ends: 256 KiB in all
		id := c.open(false, "/")
		for range 8 {
			_ = c.WriteData(id, false, make([]byte, 15<<10))
		}
	}
	if code := c.ends(); code != framing.ErrCodeFlowControl {
		t.Errorf("of the connection: %v", code)
	}
}

// A client that opens streams behind our GOAWAY, over and over, is one of them; one that does
// what clients do with each stream that they open is not, however many those are.
func TestFloodsOfStreams(t *testing.T) {
	r := newRig(t, func(st *http2.Stream) { _ = st.Start(204, nil, nil, http2.Nothing) }, nil)
	c := r.client()
	answered := func(id uint32) {
		if err := c.until(func(f framing.Frame) bool { return f.Header().StreamID == id }); err != nil {
			t.Fatalf("stream %d: %v", id, err)
		}
	}
	for begun, id := time.Now(), uint32(0); id < 20_000 && time.Since(begun) < patience; {
		id = c.open(true, "/")
		answered(id)
		_ = c.WriteWindowUpdate(id, 1) // as it did not know that this was all
		_ = c.WriteRSTStream(id, framing.ErrCodeCancel)
		_ = c.WritePriority(id, framing.PriorityParam{Weight: 3})
	}
	hold := c.open(false, "/") // so that the connection goes on
	answered(hold)
	r.server.Drain()
	go func() {
		for range 100_000 {
			c.open(true, "/late")
		}
	}()
	if code := c.ends(); code != framing.ErrCodeEnhanceYourCalm {
		t.Errorf("it ended with %v", code)
	}
}
