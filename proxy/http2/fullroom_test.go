//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"io"
	"sync"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// upload is what a handler got of a body.
type upload struct {
	text string
	err  error
}

// hoarder reads the bodies of "/read" at once, and all others once hold is closed.
func hoarder(hold chan struct{}, got chan upload) func(*http2.Stream) {
	return func(st *http2.Stream) {
		if st.Head.Path != "/read" {
			<-hold
		}
		text, err := io.ReadAll(st)
		if st.Head.Path == "/read" {
			got <- upload{string(text), err}
		}
	}
}

// fill sends n frames of 16 KiB, of a body that goes on.
func (c *client) fill(id uint32, n int) {
	for range n {
		_ = c.WriteData(id, false, make([]byte, 16<<10))
	}
}

// more reads until there is so much more room on the connection, and returns how much.
func (c *client) more(n uint32) (sum uint32) {
	c.r.t.Helper()
	if err := c.until(func(f framing.Frame) bool {
		if more, ok := f.(*framing.WindowUpdateFrame); ok && more.StreamID == 0 {
			sum += more.Increment
		}
		return sum >= n
	}); err != nil {
		c.r.t.Fatalf("there is no more room: %v", err)
	}
	return sum
}

// A client that may send nothing, as others have the room of the connection, is not late.
func TestBodiesThatWaitForRoomAreNotLate(t *testing.T) {
	t.Parallel()
	hold, got := make(chan struct{}), make(chan upload, 1)
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	const idle = time.Second
	r := newRig(t, hoarder(hold, got), func(o *http2.Options) { o.IdleTimeout = idle })
	c := r.client()
	c.more(1) // beyond what every connection begins with
	for range 2 {
		c.fill(c.open(false, "/unread"), 8)
	}
	id := c.open(false, "/read")
	select {
	case u := <-got:
		t.Fatalf("it ended with %v", u.err)
	case <-time.After(2 * idle):
	}
	release()
	c.more(1)
	select { // its time begins anew
	case u := <-got:
		t.Fatalf("with room again it ended with %v", u.err)
	case <-time.After(idle / 4):
	}
	_ = c.WriteData(id, true, []byte("late"))
	if u := <-got; u.err != nil || u.text != "late" {
		t.Errorf("%q, %v", u.text, u.err)
	}
}

// What has been read may be sent again although it is little, when there is little room.
func TestLittleRoomIsGivenBack(t *testing.T) {
	hold, got := make(chan struct{}), make(chan upload, 1)
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	r := newRig(t, hoarder(hold, got), nil)
	c := r.client()
	c.more(1)
	c.fill(c.open(false, "/unread"), 8)
	c.fill(c.open(false, "/unread"), 7)
	id := c.open(false, "/read")
	c.fill(id, 1)
	sent := 16 << 10
	for range 20 {
		n := c.more(1)
		_ = c.WriteData(id, false, make([]byte, n))
		sent += int(n)
	}
	_ = c.WriteData(id, true, nil)
	if u := <-got; u.err != nil || len(u.text) != sent {
		t.Errorf("%d bytes, %v", len(u.text), u.err)
	}
}
