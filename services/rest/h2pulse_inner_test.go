//lint:file-ignore SA1019 the connection is of the pool's transport

package rest

import (
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2/http2test"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// quietUpstream answers with a head when it is told to, and counts the PINGs as a server of
// gRPC does: since it last had something to send.
type quietUpstream struct {
	deaf    atomic.Bool // answers no PING
	pings   atomic.Int32
	streams chan uint32

	mu sync.Mutex
	f  *http2test.Frames
}

func (q *quietUpstream) serve(c net.Conn) {
	f, err := http2test.Server(c)
	q.mu.Lock()
	q.f = f
	q.mu.Unlock()
	for err == nil {
		var frame http2.Frame
		frame, err = f.ReadFrame()
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			q.streams <- frame.StreamID
		case *http2.PingFrame:
			if q.pings.Add(1); !q.deaf.Load() && !frame.IsAck() {
				q.mu.Lock()
				_ = f.WritePing(true, frame.Data)
				q.mu.Unlock()
			}
		}
	}
}

func (q *quietUpstream) answer(stream uint32, end bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pings.Store(0)
	_ = q.f.Send(stream, end, q.f.Block(":status 200"))
}

// listenTo makes a pool of this pace with one connection to the upstream.
func listenTo(t *testing.T, q *quietUpstream, at pace) (*pool, *peer) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		theirs, err := ln.Accept()
		if err == nil {
			q.serve(theirs)
			_ = theirs.Close()
		}
	}()
	p, err := newPool(&Options{Clock: time.Now, Times: Times{IdleTimeout: time.Minute}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.pace = at
	ours, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.adopt(origin{}, &link{Conn: ours})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.ClientConn.Close() })
	return p, c
}

// asking sends one, of which the result tells how it ended.
func asking(t *testing.T, c *peer, grpc bool) chan error {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://upstream.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	c.ask(grpc)
	go func() {
		resp, err := c.RoundTrip(r)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
		}
		ended <- err
	}()
	return ended
}

// A server of gRPC ends a connection at the fourth PING in a silence, golang.org/x/net sends
// one of its own with a reset, and a call may be silent for as long as it likes.
func TestASilentCallIsNotAskedTooOften(t *testing.T) {
	q := &quietUpstream{streams: make(chan uint32, 9)}
	const after = 200 * time.Millisecond
	_, c := listenTo(t, q, pace{after: after, most: 10 * time.Second, rare: time.Hour})
	const many = 5 * after
	asks := func(n int32) {
		t.Helper()
		runtimetest.Eventually(t, "an ask", func() bool { return q.pings.Load() >= n })
		time.Sleep(many)
		if got := q.pings.Load(); got != n {
			t.Errorf("asked %d times, want %d", got, n)
		}
	}
	first := asking(t, c, true)
	stream := <-q.streams
	asks(1)
	others := []chan error{asking(t, c, true)}
	asks(2)
	if !c.CanTakeNewRequest() {
		t.Error("it takes no more before it had to be asked once more")
	}
	others = append(others, asking(t, c, true))
	asks(2)
	if c.CanTakeNewRequest() { // a new one would hang as long, if the path is dead
		t.Error("it takes more, and cannot be asked")
	}
	q.answer(stream, true)
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	asks(1)
	for i, other := range others {
		select {
		case stream := <-q.streams:
			q.answer(stream, true)
			if err := <-other; err != nil {
				t.Error(err)
			}
		case err := <-other: // the last one may have come as the connection would take no more, and was not sent
			if i == 0 || err == nil {
				t.Errorf("call %d ended unanswered: %v", i, err)
			}
		}
	}
}

// After a long while it is no attack any more.
func TestASilentCallIsAskedRarely(t *testing.T) {
	q := &quietUpstream{streams: make(chan uint32, 9)}
	_, c := listenTo(t, q, pace{after: 10 * time.Millisecond, most: 10 * time.Second, rare: 50 * time.Millisecond})
	asking(t, c, true)
	runtimetest.Eventually(t, "a fourth ask", func() bool { return q.pings.Load() >= 4 })
}

// Whoever waits on a dead path hears of it, in whatever silence, and nobody takes it again.
func TestADeadPathIsNoticed(t *testing.T) {
	for name, grpc := range map[string]bool{"gRPC": true, "other": false} {
		t.Run(name, func(t *testing.T) {
			q := &quietUpstream{streams: make(chan uint32, 9)}
			p, c := listenTo(t, q, pace{after: 10 * time.Millisecond, most: time.Second, rare: time.Hour})
			first := asking(t, c, grpc)
			runtimetest.Eventually(t, "an ask", func() bool { return q.pings.Load() > 0 })
			if !grpc {
				runtimetest.Eventually(t, "four asks", func() bool { return q.pings.Load() > 3 })
			}
			q.deaf.Store(true)
			second := asking(t, c, grpc)
			for _, ended := range []chan error{first, second} {
				select {
				case err := <-ended:
					if err == nil {
						t.Error("an answer")
					}
				case <-time.After(10 * time.Second):
					t.Fatal("still waiting")
				}
			}
			runtimetest.Eventually(t, "no connection", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return len(p.known(origin{}).peers) == 0
			})
		})
	}
}

// Frames are found however the bytes are cut.
func TestHeadsAndDataAreFound(t *testing.T) {
	ping := "\x00\x00\x08\x06\x01\x00\x00\x00\x0012345678"
	data := "\x00\x00\x03\x00\x00\x00\x00\x00\x01abc"
	head := "\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88"
	for size := 1; size < 40; size++ {
		for text, want := range map[string]int{ping + ping: 0, ping + data + ping + head: 2, data + data + data: 3, "": 0} {
			var c frameCount
			found := 0
			for at := 0; at < len(text); at += size {
				if c.speaks([]byte(text[at:min(at+size, len(text))])) {
					found++
				}
			}
			if size == 1 && found != want || (found > 0) != (want > 0) || c.have != 0 || c.left != 0 {
				t.Errorf("%q by %d: %d", text, size, found)
			}
		}
	}
}
