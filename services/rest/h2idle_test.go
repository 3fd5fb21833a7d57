package rest_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/services/servicestest"
)

// windowed is an upstream that hears of the room its streams get while it answers.
func windowed(room chan int64, on func(f *frames, s uint32, more func() int64)) servicestest.Options {
	return servicestest.Options{H2: func(c net.Conn) {
		f := begin(c)
		var answers sync.WaitGroup
		defer answers.Wait()
		done := make(chan struct{})
		defer close(done)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.MetaHeadersFrame:
				answers.Go(func() {
					on(f, frame.StreamID, func() int64 {
						select {
						case n := <-room:
							return n
						case <-done:
							return 0
						}
					})
				})
			case *http2.WindowUpdateFrame:
				if frame.StreamID != 0 {
					room <- int64(frame.Increment)
				}
			}
		}
	}}
}

// What came while nobody had the connection is heeded before the next turn: it is left
// when the upstream takes no more on it, and used otherwise.
func TestWhatComesWhileIdleIsHeeded(t *testing.T) {
	ping := func(f *frames, _ uint32) { _ = f.WritePing(false, [8]byte{7}) }
	for name, c := range map[string]struct {
		write func(f *frames, s uint32)
		conns int
	}{
		"nothing":    {func(*frames, uint32) {}, 1},
		"a ping":     {ping, 1},
		"many pings": {func(f *frames, s uint32) { ping(f, s); ping(f, s); ping(f, s) }, 1},
		"settings": {func(f *frames, _ uint32) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 0})
		}, 1},
		"room":                {func(f *frames, _ uint32) { _ = f.WriteWindowUpdate(0, 1000) }, 1},
		"room of the last":    {func(f *frames, s uint32) { _ = f.WriteWindowUpdate(s, 1000) }, 1},
		"a reset of the last": {func(f *frames, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeNo) }, 1},
		"GOAWAY":              {func(f *frames, s uint32) { _ = f.WriteGoAway(s, http2.ErrCodeNo, nil) }, 2},
		"no streams": {func(f *frames, _ uint32) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
		}, 2},
		"an answer to the next": {func(f *frames, s uint32) { f.head(s+2, true, ":status 200", "x-smuggled yes") }, 2},
		"data of the last":      {func(f *frames, s uint32) { _ = f.WriteData(s, true, []byte("x")) }, 2},
	} {
		for _, same := range []bool{true, false} { // as the answer's end, in one record
			t.Run(fmt.Sprint(name, ", at once ", same), func(t *testing.T) {
				tail := strings.Repeat("x", 9000) // longer than what is read ahead
				r := turning(t, framed(func(f *frames, h *http2.MetaHeadersFrame) {
					if h.PseudoValue("path") != "/first" {
						if !h.StreamEnded() {
							return
						}
						f.head(h.StreamID, true, ":status 200")
						return
					}
					f.head(h.StreamID, false, ":status 200")
					if same {
						f.together("", func(f *frames) { _ = f.WriteData(h.StreamID, true, []byte(tail)); c.write(f, h.StreamID) })
						return
					}
					_ = f.WriteData(h.StreamID, true, []byte(tail))
					c.write(f, h.StreamID)
				}))
				answer, _ := r.must(t, r.call("GET", "/first"))
				equal(t, "length", len(answer.Body), len(tail))
				answer, _ = r.must(t, r.call("GET", "/"))
				if same { // otherwise it may come later than the next request
					equal(t, "smuggled", answer.Header.Get("X-Smuggled"), "")
					equal(t, "connections", r.Connections(), c.conns)
				}
			})
		}
	}
}

// One that is streamed cannot be sent again, so it must not meet what was there to see.
func TestAnUploadDoesNotMeetAGoAwayThatHasCome(t *testing.T) {
	r := turning(t, uploads(func(f *frames, s uint32, path string) {
		if path == "/first" {
			f.head(s, false, ":status 200")
			f.together("", func(f *frames) {
				_ = f.WriteData(s, true, make([]byte, 9000))
				_ = f.WriteGoAway(s, http2.ErrCodeNo, nil)
			})
			return
		}
		f.head(s, true, ":status 200")
	}))
	r.must(t, r.call("GET", "/first"))
	reader, writer := io.Pipe()
	go func() { _, _ = io.WriteString(writer, "x"); _ = writer.Close() }()
	r.must(t, body(r.call("POST", "/"), reader, -1))
	equal(t, "connections", r.Connections(), 2)
}

// uploads answers when a request has come to its end.
func uploads(on func(f *frames, s uint32, path string)) servicestest.Options {
	return servicestest.Options{H2: func(c net.Conn) {
		f := begin(c)
		path := ""
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if head, ok := frame.(*http2.MetaHeadersFrame); ok {
				path = head.PseudoValue("path")
			}
			switch frame.Header().Type {
			case http2.FrameHeaders, http2.FrameData:
				if frame.Header().Flags.Has(http2.FlagDataEndStream) {
					on(f, frame.Header().StreamID, path)
				}
			}
		}
	}}
}

// Small answers are not given back one by one: servers count small steps as an attack, and
// end the connection with the requests on it.
func TestSmallAnswersAreNotGivenBackOneByOne(t *testing.T) {
	var steps atomic.Int32
	r := turning(t, servicestest.Options{H2: func(c net.Conn) {
		f := begin(c)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.WindowUpdateFrame:
				if frame.Increment < 1<<20 {
					steps.Add(1)
				}
			case *http2.MetaHeadersFrame:
				f.head(frame.StreamID, false, ":status 200")
				_ = f.WriteData(frame.StreamID, true, []byte("small\n"))
			}
		}
	}})
	for range 20 {
		r.must(t, r.call("GET", "/"))
	}
	equal(t, "connections", r.Connections(), 1)
	equal(t, "small steps", steps.Load(), 0)
}
