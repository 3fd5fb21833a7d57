package rest_test

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// turning is a rig of the relay engine alone, whose callers of HTTP/1.1 take turns on a
// connection of HTTP/2. Under net/http they share one of golang.org/x/net, which has
// tests of its own.
func turning(t *testing.T, o servicestest.Options, edit ...func(*rest.Options)) *rig {
	t.Helper()
	r := newRig(t, o, append(edit, func(o *rest.Options) { o.Engine = rest.EngineRelay })...)
	r.proto = "HTTP/1.1"
	return r
}

// together writes what do writes, and the tail, as one record of TLS.
func (f *frames) together(tail string, do func(f *frames)) {
	var all bytes.Buffer
	one := &frames{&http2test.Frames{Framer: http2.NewFramer(&all, nil)}}
	one.AllowIllegalWrites = true
	one.Enc = hpack.NewEncoder(&one.Buf)
	do(one)
	f.Enc = hpack.NewEncoder(&f.Buf) // knows of no field that is not where it looks for it
	_, _ = f.Conn.Write(append(all.Bytes(), tail...))
}

// raw writes a frame as no framer would.
func (f *frames) raw(kind http2.FrameType, flags http2.Flags, stream uint32, payload string) {
	_ = f.WriteRawFrame(kind, flags, stream, []byte(payload))
}

// signal is closed once.
type signal struct {
	once sync.Once
	c    chan struct{}
}

func newSignal() *signal { return &signal{c: make(chan struct{})} }

func (s *signal) give() { s.once.Do(func() { close(s.c) }) }

// wait gives up after so long that nothing can come any more.
func (s *signal) wait() bool {
	select {
	case <-s.c:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

// What is no answer by RFC 9113 is one to nobody: the caller gets an error at once, and
// no body that was cut counts as whole. The next request goes elsewhere.
func TestHostileFramesEndTheTurn(t *testing.T) {
	part := func(f *frames, s uint32) {
		f.head(s, false, ":status 200")
		_ = f.WriteData(s, false, []byte("part"))
	}
	long := func(f *frames, s uint32) {
		f.head(s, false, ":status 200", "content-length 5")
		_ = f.WriteData(s, false, []byte("part"))
	}
	for name, on := range map[string]func(f *frames, s uint32){
		"data before a head":         func(f *frames, s uint32) { _ = f.WriteData(s, true, []byte("x")) },
		"data of another stream":     func(f *frames, s uint32) { part(f, s); _ = f.WriteData(s+2, true, []byte("x")) },
		"data of no stream":          func(f *frames, s uint32) { part(f, s); f.raw(http2.FrameData, 1, 0, "x") },
		"a head of another stream":   func(f *frames, s uint32) { f.head(s+2, true, ":status 200") },
		"a second head":              func(f *frames, s uint32) { part(f, s); f.head(s, false, ":status 200") },
		"trailers that end nothing":  func(f *frames, s uint32) { part(f, s); f.head(s, false, "x-a b") },
		"trailers with a status":     func(f *frames, s uint32) { part(f, s); f.head(s, true, ":status 200") },
		"trailers before the length": func(f *frames, s uint32) { long(f, s); f.head(s, true, "x-a b") },
		"an end before the length":   func(f *frames, s uint32) { long(f, s); _ = f.WriteData(s, true, nil) },
		"data beyond the length":     func(f *frames, s uint32) { long(f, s); _ = f.WriteData(s, true, []byte("xx")) },
		"a head that ends short":     func(f *frames, s uint32) { f.head(s, true, ":status 200", "content-length 5") },
		"two lengths":                func(f *frames, s uint32) { f.head(s, true, ":status 200", "content-length 5", "content-length 6") },
		"a length that is none":      func(f *frames, s uint32) { f.head(s, true, ":status 200", "content-length +0") },
		"more padding than data":     func(f *frames, s uint32) { part(f, s); f.raw(http2.FrameData, 9, s, "\x05abc") },
		"padding without a length":   func(f *frames, s uint32) { part(f, s); f.raw(http2.FrameData, 9, s, "") },
		"a frame that is too large":  func(f *frames, s uint32) { part(f, s); f.raw(http2.FrameData, 1, s, strings.Repeat("x", 64<<10+1)) },
		"a push":                     func(f *frames, s uint32) { f.raw(http2.FramePushPromise, 4, s, "\x00\x00\x00\x02\x88") },
		"a continuation of nothing":  func(f *frames, s uint32) { f.raw(http2.FrameContinuation, 4, s, "\x88") },
		"a head that is interrupted": func(f *frames, s uint32) {
			f.raw(http2.FrameHeaders, 1, s, "\x88")
			f.raw(http2.FramePing, 0, 0, "12345678")
		},
		"an index that is none":           func(f *frames, s uint32) { f.raw(http2.FrameHeaders, 5, s, "\xff\xff\x03") },
		"101":                             func(f *frames, s uint32) { f.head(s, false, ":status 101") },
		"a last 103":                      func(f *frames, s uint32) { f.head(s, true, ":status 103") },
		"no status":                       func(f *frames, s uint32) { f.head(s, true, "x-a b") },
		"a status of four digits":         func(f *frames, s uint32) { f.head(s, true, ":status 2000") },
		"a request for an answer":         func(f *frames, s uint32) { f.head(s, true, ":path /", ":method GET") },
		"a body for 204":                  func(f *frames, s uint32) { f.head(s, false, ":status 204"); _ = f.WriteData(s, true, []byte("x")) },
		"a window that overflows":         func(f *frames, s uint32) { _ = f.WriteWindowUpdate(0, 1<<31-1) },
		"a stream's window overflows":     func(f *frames, s uint32) { _ = f.WriteWindowUpdate(s, 1<<31-1) },
		"a window of nothing":             func(f *frames, s uint32) { f.raw(http2.FrameWindowUpdate, 0, 0, "\x00\x00\x00\x00") },
		"an initial window beyond bounds": func(f *frames, s uint32) { f.raw(http2.FrameSettings, 0, 0, "\x00\x04\x80\x00\x00\x00") },
		"settings cut off":                func(f *frames, s uint32) { f.raw(http2.FrameSettings, 0, 0, "\x00\x04\x80") },
		"a ping that is too short":        func(f *frames, s uint32) { f.raw(http2.FramePing, 0, 0, "1234") },
		"reset in the middle":             func(f *frames, s uint32) { part(f, s); _ = f.WriteRSTStream(s, http2.ErrCodeNo) },
		"GOAWAY in the middle":            func(f *frames, s uint32) { part(f, s); _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"an end in the middle":            func(f *frames, s uint32) { part(f, s); _ = f.Conn.Close() },
		"an end in a frame": func(f *frames, s uint32) {
			part(f, s)
			_, _ = f.Conn.Write([]byte("\x00\x00\x09\x00\x01\x00\x00\x00\x01abc"))
			_ = f.Conn.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
				f.AllowIllegalWrites = true
				if h.PseudoValue("path") == "/" {
					f.head(h.StreamID, true, ":status 200")
					return
				}
				on(f, h.StreamID)
			}))
			for range 2 { // on a fresh connection, and on one that was used
				call := r.call("POST", "/odd")
				answer, _, err := r.do(t, call)
				if e := runtime.AsError(err); e == nil || e.Code != runtime.CodeUpstream {
					t.Fatalf("%v, answer %d %q", err, answer.Status, answer.Body)
				}
				if answer.Status != 0 && answer.Aborted == nil {
					t.Errorf("an answer of %d bytes was passed on as whole", len(answer.Body))
				}
				r.must(t, r.call("GET", "/"))
			}
		})
	}
}

// A length that is said twice alike is said once to the caller, as over HTTP/1.1: many
// clients take no second Content-Length.
func TestALengthThatIsSaidTwiceIsOne(t *testing.T) {
	twice := framed(func(f *frames, h *http2.MetaHeadersFrame) {
		f.head(h.StreamID, false, ":status 200", "content-length 4", "content-length 4")
		_ = f.WriteData(h.StreamID, true, []byte("text"))
	})
	for name, r := range map[string]*rig{"in turns": turning(t, twice), "shared": newRig(t, twice)} {
		answer, _ := r.must(t, r.call("GET", "/"))
		equal(t, name, fmt.Sprintf("%s %q", answer.Header["Content-Length"], answer.Body), `[4] "text"`)
	}
}

// However the frames of a body are cut, padded and mixed with others, it arrives as it
// was, and the connection is used again.
func TestOddFramesCarryTheBody(t *testing.T) {
	var text strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&text, "%d,", i)
	}
	for name, c := range map[string]struct{ size, pad, ping int }{
		"small": {7, 0, 0}, "padded": {100, 255, 0}, "pings": {1000, 0, 1}, "padded with pings": {500, 13, 3}, "large": {60_000, 200, 1},
	} {
		for _, length := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", length ", length), func(t *testing.T) {
				whole := text.String()
				if c.size < 10 {
					whole = whole[:20_000]
				}
				r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
					fields := []string{":status 200"}
					if length {
						fields = append(fields, fmt.Sprint("content-length ", len(whole)))
					}
					f.head(h.StreamID, false, fields...)
					for at, n := 0, 0; at < len(whole); at, n = at+c.size, n+1 {
						part := []byte(whole[at:min(at+c.size, len(whole))])
						if c.ping > 0 && n%c.ping == 0 {
							_ = f.WritePing(false, [8]byte{byte(n)})
							_ = f.WriteWindowUpdate(0, 1)
							f.raw(0xfa, 0, h.StreamID, "unknown")
						}
						if n%50 == 0 {
							_ = f.WriteData(h.StreamID, false, nil)
						}
						_ = f.WriteDataPadded(h.StreamID, false, part, make([]byte, c.pad))
					}
					_ = f.WriteDataPadded(h.StreamID, true, nil, make([]byte, c.pad))
				}))
				for range 3 {
					if answer, _ := r.must(t, r.call("GET", "/")); answer.Body != whole {
						t.Fatalf("%d bytes of %d", len(answer.Body), len(whole))
					}
				}
				equal(t, "connections", r.Connections(), 1)
			})
		}
	}
}

// Padding counts against the window (RFC 9113 section 6.9.1), and is given back also
// when nothing but padding comes.
func TestPaddingIsGivenBack(t *testing.T) {
	window := make(chan int64, 100)
	r := turning(t, windowed(window, func(f *frames, s uint32, more func() int64) {
		f.head(s, false, ":status 200")
		room, frame := int64(16<<20), "\xff"+strings.Repeat("\x00", 255)
		for sent := 0; sent < 21<<20; sent += len(frame) {
			for room < int64(len(frame)) {
				got := more()
				if got == 0 {
					return
				}
				room += got
			}
			room -= int64(len(frame))
			f.raw(http2.FrameData, 8, s, frame)
		}
		_ = f.WriteData(s, true, []byte("at last"))
	}))
	answer, _ := r.must(t, r.call("GET", "/"))
	equal(t, "the body", answer.Body, "at last")
}

// A caller that still sends is told of an upstream that stops in the middle of a frame,
// as any other is.
func TestAStallIsNoticedWhileSending(t *testing.T) {
	r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
		if !h.StreamEnded() {
			stalls := "\x00\x00\x09\x00\x08\x00\x00\x00\x01" // padded, and not how much
			f.together(stalls, func(f *frames) { f.head(h.StreamID, false, ":status 200") })
		}
	}), func(o *rest.Options) { o.IdleTimeout = 200 * time.Millisecond })
	reader, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	_, _, err := r.do(t, body(r.call("POST", "/"), reader, -1))
	if e := runtime.AsError(err); e == nil || e.Code != runtime.CodeTimeout || !strings.Contains(e.Msg, "stopped sending") {
		t.Errorf("%v", err)
	}
}
