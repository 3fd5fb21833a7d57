package http2

import (
	"context"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A connection that rests behind large heads, the client's and ours, does not keep their room.
func TestLargeHeadsLeaveNothingBehind(t *testing.T) {
	const large = 100 << 10
	c, theirs, ran := piped(t, Options{
		Handler: func(st *Stream) {
			_ = st.Start(200, http.Header{"X-Large": st.Head.Header["X-Large"]}, nil, Nothing)
		},
		Go: func(f func()) { go f() }, Streams: 1, StreamWindow: firstWindow, ConnWindow: firstWindow,
		HeadBytes: 2 * large, IdleTimeout: time.Minute, HeadTimeout: time.Minute,
	})
	framer := http2.NewFramer(theirs, theirs)
	framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	go func() {
		var text strings.Builder
		enc := hpack.NewEncoder(&text)
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "a.test"}, {":path", "/"}, {"x-large", strings.Repeat("~", large)}} {
			_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		_, _ = io.WriteString(theirs, http2.ClientPreface)
		_ = framer.WriteSettings()
		block := []byte(text.String())
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:firstFrame], EndStream: true})
		for block = block[firstFrame:]; len(block) > 0; {
			part := block[:min(len(block), firstFrame)]
			block = block[len(part):]
			_ = framer.WriteContinuation(1, len(block) == 0, part)
		}
	}()
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if head, ok := frame.(*http2.MetaHeadersFrame); ok {
			if len(head.RegularFields()) != 1 || len(head.RegularFields()[0].Value) != large {
				t.Error("the answer has another head")
			}
			break
		}
	}
	c.mu.Lock()
	written := max(c.block.Cap(), reflect.ValueOf(c.enc).Elem().FieldByName("buf").Cap()) // which has no other way to be seen
	c.mu.Unlock()
	_ = theirs.Close()
	<-ran
	read := reflect.ValueOf(c.dec).Elem().FieldByName("saveBuf").FieldByName("buf").Cap()
	if written > firstFrame || read > firstFrame {
		t.Errorf("%d bytes are kept of what was written, and %d of what was read", written, read)
	}
}

// piped is a connection of a new server, the client's end of it, and its end.
func piped(t *testing.T, o Options) (c *conn, theirs net.Conn, ran <-chan struct{}) {
	t.Helper()
	server, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	c = server.newConn(context.Background(), ours)
	done := make(chan struct{})
	go func() { defer close(done); c.run() }()
	return c, theirs, done
}

// Nor does the clock of a body keep its stream once the handler has returned, whatever became
// of the body.
func TestAClockEndsWithItsStream(t *testing.T) {
	streams := make(chan *Stream, 1)
	c, theirs, ran := piped(t, Options{
		Handler: func(st *Stream) {
			st.ReadUntil(time.Now().Add(time.Hour))
			_ = st.Start(http.StatusForbidden, nil, nil, Nothing)
			streams <- st
		},
		Go: func(f func()) { go f() }, Streams: 1, StreamWindow: firstWindow, ConnWindow: firstWindow,
		HeadBytes: 1000, IdleTimeout: time.Minute, HeadTimeout: time.Minute,
	})
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	framer := http2.NewFramer(theirs, nil)
	_, _ = io.WriteString(theirs, http2.ClientPreface)
	_ = framer.WriteSettings()
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x83, 0x87, 0x84}, EndStream: true, EndHeaders: true})
	st := <-streams
	_ = theirs.Close()
	<-ran
	c.handlers.Wait()
	if st.clock.Stop() {
		t.Error("it runs on")
	}
}
