//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	framing "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// Whatever a client sends, the server ends with it, and what it gives to handlers as a good
// head is one by every rule of RFC 9113.
func FuzzServe(f *testing.F) {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "a.test"}, {":path", "/x"}, {"x-a", "b"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	seed := func(write func(fr *framing.Framer)) {
		var out bytes.Buffer
		fr := framing.NewFramer(&out, nil)
		fr.AllowIllegalWrites = true
		_ = fr.WriteSettings()
		write(fr)
		f.Add(out.Bytes())
	}
	head := func(fr *framing.Framer, id uint32, end bool) {
		_ = fr.WriteHeaders(framing.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: end, EndHeaders: true})
	}
	seed(func(fr *framing.Framer) { head(fr, 1, true); head(fr, 3, true) })
	seed(func(fr *framing.Framer) {
		head(fr, 1, false)
		_ = fr.WriteDataPadded(1, false, []byte("abc"), make([]byte, 3))
		_ = fr.WriteWindowUpdate(1, 5)
		_ = fr.WriteHeaders(framing.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0, 1, 'x', 1, 'y'}, EndStream: true, EndHeaders: true})
	})
	seed(func(fr *framing.Framer) {
		_ = fr.WriteHeaders(framing.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()[:4]})
		_ = fr.WriteContinuation(1, true, block.Bytes()[4:])
		_ = fr.WriteRSTStream(1, framing.ErrCodeCancel)
		_ = fr.WriteData(1, true, []byte("late"))
		_ = fr.WritePriority(5, framing.PriorityParam{StreamDep: 5})
		_ = fr.WriteGoAway(0, framing.ErrCodeNo, nil)
	})
	f.Fuzz(func(t *testing.T, frames []byte) {
		server, err := http2.New(http2.Options{
			Handler: func(st *http2.Stream) { checkGood(t, st); echo(st) }, Go: func(f func()) { go f() },
			Streams: 4, StreamWindow: 65535, ConnWindow: 65535, HeadBytes: 4 << 10,
			IdleTimeout: 10 * time.Second, HeadTimeout: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() { defer close(served); server.Serve(context.Background(), ours) }()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		_, _ = io.WriteString(theirs, framing.ClientPreface)
		_, _ = theirs.Write(frames)
		_ = theirs.Close()
		select {
		case <-served:
		case <-time.After(patience):
			t.Fatal("it is still served")
		}
	})
}

// checkGood holds a head that is said to be good against the rules.
func checkGood(t *testing.T, st *http2.Stream) {
	h := st.Head
	if h.Malformed != "" || h.TooLarge {
		return
	}
	if h.Method == "" || h.Method != http.MethodConnect && (h.Scheme == "" || h.Path == "" || h.Path[0] != '/' && h.Path != "*") {
		t.Errorf("a good head without what it must have: %+v", h)
	}
	for name, values := range h.Header {
		if http.CanonicalHeaderKey(name) != name || name == "Connection" || name == "Transfer-Encoding" || name == "Host" {
			t.Errorf("a field %q", name)
		}
		for _, value := range values {
			if bytes.ContainsAny([]byte(value), "\r\n\x00") {
				t.Errorf("a value %q", value)
			}
		}
	}
}
