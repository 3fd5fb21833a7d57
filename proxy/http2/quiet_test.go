package http2

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A connection is not quiet while the client has not taken the end of its last answer.
func TestAnswersThatWaitAreNotQuiet(t *testing.T) {
	answered := make(chan struct{})
	server, err := New(Options{
		Handler: func(st *Stream) {
			_ = st.Start(200, nil, nil, Soon)
			_, _ = st.Write([]byte("whole"), Nothing)
		},
		Go: func(f func()) { go func() { f(); close(answered) }() }, Streams: 1, StreamWindow: firstWindow, ConnWindow: firstWindow,
		HeadBytes: 4 << 10, IdleTimeout: time.Minute, HeadTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe() // which holds nothing: our first settings wait as well
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(context.Background(), ours) }()
	_, _ = io.WriteString(theirs, http2.ClientPreface)
	framer := http2.NewFramer(theirs, theirs)
	_ = framer.WriteSettings()
	block := []byte{0x82, 0x87, 0x84, 0x41, 1, 'a'} // GET https://a/ (RFC 7541 appendix A)
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndStream: true, EndHeaders: true})
	<-answered
	if !server.CloseQuiet(0) {
		t.Error("there is no connection")
	}
	framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	_ = theirs.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Errorf("the answer was cut: %v", err)
			break
		}
		if data, ok := frame.(*http2.DataFrame); ok && data.StreamEnded() {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	for server.CloseQuiet(0) { // and then it is
		time.Sleep(time.Millisecond)
	}
	<-served
}

// An idle connection is told of its end and heard for a while after it: a client that sent a
// request meanwhile would find a reset instead of being told that nobody took it.
func TestIdleConnectionsEndWithNotice(t *testing.T) {
	c, theirs, ran := piped(t, Options{
		Handler: func(*Stream) {}, Go: func(f func()) { go f() }, Streams: 1, StreamWindow: firstWindow, ConnWindow: firstWindow,
		HeadBytes: 1, IdleTimeout: time.Hour, HeadTimeout: time.Minute,
	})
	framer := http2.NewFramer(theirs, theirs)
	until := func(kind http2.FrameType) {
		t.Helper()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				t.Fatalf("no %v: %v", kind, err)
			}
			if frame.Header().Type == kind {
				return
			}
		}
	}
	until(http2.FrameSettings)
	_, _ = io.WriteString(theirs, http2.ClientPreface)
	_ = framer.WriteSettings()
	until(http2.FrameSettings)
	c.mu.Lock()
	c.changed = time.Now().Add(-2 * time.Hour)
	c.mu.Unlock()
	c.tick()
	until(http2.FrameGoAway)
	for told := time.Now(); time.Since(told) < lingering/10; {
		_ = framer.WritePing(false, [8]byte{})
		until(http2.FramePing)
	}
	if _, err := framer.ReadFrame(); err != io.EOF {
		t.Errorf("it ended with %v", err)
	}
	<-ran
}
