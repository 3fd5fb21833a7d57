//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// slowIdle is the idle time where a client moves, but not each of its streams in that time.
const slowIdle = time.Second

// download answers with so many bytes.
func download(n int) func(*http2.Stream) {
	return func(st *http2.Stream) {
		_ = st.Start(200, nil, nil, http2.More)
		_, _ = st.Write(make([]byte, n), http2.Nothing)
	}
}

// wholly reads answers to their ends, does what is to be done behind each frame of data, and
// reports the first that was reset.
func (c *client) wholly(n int, behind func(*framing.DataFrame)) {
	c.r.t.Helper()
	ended := 0
	err := c.until(func(f framing.Frame) bool {
		switch f := f.(type) {
		case *framing.RSTStreamFrame:
			c.r.t.Errorf("stream %d was reset: %v", f.StreamID, f.ErrCode)
			return true
		case *framing.PingFrame:
			if !f.IsAck() {
				_ = c.WritePing(true, f.Data)
			}
		case *framing.DataFrame:
			behind(f)
			if f.StreamEnded() {
				ended++
			}
		}
		return ended == n
	})
	if err != nil {
		c.r.t.Errorf("%d of %d answers ended: %v", ended, n, err)
	}
}

// Answers that share what a slow client reads wait for each other for longer than the idle
// time: that is nobody's fault.
func TestAnswersThatShareASlowClient(t *testing.T) {
	t.Parallel()
	const many = 40
	r := newBareRig(t, download(32<<10), func(o *http2.Options) { o.IdleTimeout = slowIdle })
	c := r.client(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 1 << 20})
	_ = c.WriteWindowUpdate(0, 1<<30)
	for range many {
		c.open(true, "/")
	}
	c.wholly(many, func(*framing.DataFrame) { time.Sleep(slowIdle / 40) })
}

// Nor is it when they share the window of a connection that a client opens slowly.
func TestAnswersThatShareAWindow(t *testing.T) {
	t.Parallel()
	const many = 40
	r := newRig(t, download(32<<10), func(o *http2.Options) { o.IdleTimeout = slowIdle })
	c := r.client(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 1 << 20})
	for range many {
		c.open(true, "/")
	}
	c.wholly(many, func(f *framing.DataFrame) {
		time.Sleep(slowIdle / 40)
		if n := len(f.Data()); n > 0 {
			_ = c.WriteWindowUpdate(0, uint32(n))
		}
	})
}

// A stream that waits for its own window ends an idle time after the client has read what
// came before: what lies between us and it was not read yet. It is asked, as it may do much
// else meanwhile.
func TestWhoHasReadAnAnswerAndWantsNoMore(t *testing.T) {
	t.Parallel()
	r := newRig(t, download(100), func(o *http2.Options) { o.IdleTimeout = slowIdle })
	c := r.client(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 10})
	id := c.open(true, "/")
	asked := make(chan [8]byte, 1)
	ended := make(chan time.Time, 1)
	go func() {
		_ = c.until(func(f framing.Frame) bool {
			switch f := f.(type) {
			case *framing.PingFrame:
				asked <- f.Data
			case *framing.RSTStreamFrame:
				ended <- time.Now()
				return f.StreamID == id
			}
			return false
		})
	}()
	var question [8]byte
	for begun := time.Now(); time.Since(begun) < 4*slowIdle; time.Sleep(slowIdle / 40) {
		_ = c.WriteWindowUpdate(0, 1) // it reads others
		select {
		case question = <-asked:
		case <-ended:
			t.Fatal("it was reset before the client had read what came")
		default:
		}
	}
	_ = c.WritePing(true, question)
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(slowIdle / 40) {
		_ = c.WriteWindowUpdate(0, 1)
		select {
		case <-asked:
		case <-ended:
			return
		default:
		}
	}
	t.Error("it goes on")
}
