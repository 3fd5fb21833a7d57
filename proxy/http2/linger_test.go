//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"slices"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// refuses answers at once, whatever is still being sent.
func refuses(st *http2.Stream) {
	_ = st.Start(403, nil, nil, http2.Soon)
	_, _ = st.Write([]byte("no"), http2.Nothing)
}

// resetWhile sends something once an answer has ended, and reports whether its stream was
// reset before the server had read that.
func (c *client) resetWhile(id uint32, send func()) (reset bool) {
	c.r.t.Helper()
	over, ended := false, false
	err := c.until(func(f framing.Frame) bool {
		switch f := f.(type) {
		case *framing.DataFrame:
			if f.StreamID == id && f.StreamEnded() && !ended {
				ended = true
				send()
				_ = c.WritePing(false, [8]byte{1})
			}
		case *framing.RSTStreamFrame:
			reset = reset || f.StreamID == id
		case *framing.PingFrame:
			over = f.IsAck()
		}
		return over
	})
	if err != nil {
		c.r.t.Error(err)
	}
	return reset
}

// A client that is refused while it sends a body has not to lose the refusal over it: curl
// takes a reset for an error, although the answer was whole.
func TestAClientThatStillSendsKeepsItsAnswer(t *testing.T) {
	r := newRig(t, refuses, func(o *http2.Options) { o.QuietTime = patience })
	c := r.client()
	for range 20 {
		id := c.open(false, "/")
		if c.resetWhile(id, func() {
			for range 2 {
				_ = c.WriteData(id, false, make([]byte, 10<<10))
			}
			_ = c.WriteData(id, true, nil)
		}) {
			t.Fatal("the stream was reset while its body came")
		}
	}
	if c.resetWhile(c.open(true, "/"), func() {}) {
		t.Error("the next stream was reset")
	}
}

// It has a while for that. Then its stream ends, whether it has said nothing more or goes
// on, and what nobody read takes no room from others.
func TestAClientThatGoesOnSendingIsReset(t *testing.T) {
	t.Parallel()
	r := newRig(t, refuses, func(o *http2.Options) { o.Streams = 2 })
	c := r.client()
	began := time.Now()
	if code := c.reset(c.open(false, "/")); code != framing.ErrCodeNo {
		t.Errorf("the reset says %v", code)
	}
	if took := time.Since(began); took > patience/2 {
		t.Errorf("it took %s", took)
	}
	id := c.open(false, "/")
	for range 2 * (128 << 10) / (16 << 10) { // all of the stream's window, and what it was given back
		if err := c.WriteData(id, false, make([]byte, 16<<10)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if code := c.reset(id); code != framing.ErrCodeNo {
		t.Errorf("the reset of one that goes on says %v", code)
	}
	if c.resetWhile(c.open(true, "/"), func() {}) {
		t.Error("the next stream was reset")
	}
}

// A client may have to send all of its body before it looks at the answer: it goes on as
// long as it sends, and each byte that nobody read is given back to it, also of a frame that
// is still coming when the others are dropped.
func TestAClientThatSendsAllFirstIsHeard(t *testing.T) {
	r := newRig(t, refuses, func(o *http2.Options) { o.QuietTime = patience })
	c := r.client()
	id := c.open(false, "/")
	frame := append([]byte{0, 0x40, 0, byte(framing.FrameData), 0, 0, 0, 0, byte(id)}, make([]byte, 16<<10)...)
	half, owed := len(frame)/2, 0
	await := func(least int) { // until no more than that is owed to us
		err := c.until(func(f framing.Frame) bool {
			switch f := f.(type) {
			case *framing.RSTStreamFrame:
				t.Fatalf("reset with %v", f.ErrCode)
			case *framing.WindowUpdateFrame:
				if f.StreamID == id {
					owed -= int(f.Increment)
				}
			}
			return owed <= least
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * (128 << 10) / (16 << 10) { // more than all of the stream's window
		_, _ = r.conn.Write(slices.Concat(frame, frame, frame[:half]))
		owed += 3 * 16 << 10
		await(owed - 1) // the whole ones were dropped while the third was coming
		_, _ = r.conn.Write(frame[half:])
		if owed > 64<<10 {
			await(64 << 10)
		}
	}
	if c.resetWhile(c.open(true, "/"), func() { _ = c.WriteData(id, true, nil) }) {
		t.Error("the next stream was reset")
	}
}
