//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// A head of a mebibyte may come as some hundred bytes, from the table of what was sent before.
// What all of them hold until their handlers return is bounded, of those that were reset too;
// the next is one that its client may send again.
func TestTheHeadsOfAConnectionAreBounded(t *testing.T) {
	const many, most = 250, 8
	for name, reset := range map[string]bool{"open": false, "reset": true} {
		t.Run(name, func(t *testing.T) {
			hold, began, returned := make(chan struct{}), make(chan struct{}, most+2), make(chan struct{}, most+2)
			release := sync.OnceFunc(func() { close(hold) })
			r := newRig(t, func(st *http2.Stream) {
				began <- struct{}{}
				<-hold
				_ = st.Start(204, nil, nil, http2.Nothing)
			}, func(o *http2.Options) {
				o.HeadBytes = 1 << 20
				o.Go = func(f func()) { go func() { defer func() { returned <- struct{}{} }(); f() }() }
			})
			defer release()
			c := r.client()
			large := slices.Repeat([]string{"cookie " + strings.Repeat("~", 4000)}, many)
			for range most {
				id := c.open(true, "/", large...)
				<-began
				if reset {
					_ = c.WriteRSTStream(id, framing.ErrCodeCancel)
				}
			}
			if code := c.reset(c.open(true, "/", large...)); code != framing.ErrCodeRefusedStream {
				t.Errorf("one too many: %v", code)
			}
			c.open(true, "/")
			<-began
			release()
			for range most + 1 {
				<-returned
			}
			last := c.open(true, "/", large...)
			if err := c.until(func(f framing.Frame) bool {
				return f.Header().StreamID == last && f.Header().Type == framing.FrameHeaders
			}); err != nil {
				t.Errorf("when all have returned: %v", err)
			}
		})
	}
}

// A body that is not wanted waits for nobody: others may send as much while the answer waits for
// its client, which goes on when it has that.
func TestABodyThatIsNotWantedIsNotKept(t *testing.T) {
	t.Parallel()
	unwanted := make(chan struct{})
	r := newRig(t, func(st *http2.Stream) {
		st.Discard()
		close(unwanted)
		_ = st.Start(403, nil, nil, http2.Soon)
		_, _ = st.Write([]byte("no"), http2.Nothing)
	}, nil)
	c := r.client(framing.Setting{ID: framing.SettingInitialWindowSize, Val: 0})
	c.more(1) // beyond what every connection begins with
	id := c.open(false, "/")
	<-unwanted    // else what has come by then is paid back at once, and some of the rest not yet
	c.fill(id, 8) // all that one may send
	c.more(8 * 16 << 10)
	_ = c.WriteWindowUpdate(id, 2)
	answered, more := false, false
	if err := c.until(func(f framing.Frame) bool {
		switch f := f.(type) {
		case *framing.DataFrame:
			answered = f.StreamEnded() && string(f.Data()) == "no"
		case *framing.WindowUpdateFrame:
			more = more || f.StreamID == id && f.Increment == 8*16<<10
		}
		return answered && more
	}); err != nil {
		t.Errorf("answered %t, may go on %t: %v", answered, more, err)
	}
	_ = c.WriteData(id, true, []byte("rest"))
	c.ping()
}
