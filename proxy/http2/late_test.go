//lint:file-ignore SA1019 the double speaks HTTP/2 on connections it has opened itself

package http2_test

import (
	"sync"
	"testing"
	"time"

	framing "golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http2"
)

// trailers ends a stream with trailers.
func (c *client) trailers(id uint32) error {
	return c.Send(id, true, c.Block("x-sum 7"))
}

// ping waits until all has been read that was sent before.
func (c *client) ping() {
	c.r.t.Helper()
	_ = c.WritePing(false, [8]byte{1})
	if err := c.until(func(f framing.Frame) bool { _, ok := f.(*framing.PingFrame); return ok }); err != nil {
		c.r.t.Fatalf("the connection ended: %v", err)
	}
}

// What a client sends of a stream before it knows that we do not take it is no fault: the
// streams that run go on.
func TestWholeRequestsBehindGoAway(t *testing.T) {
	began, finish := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(st *http2.Stream) {
		close(began)
		<-finish
		_ = st.Start(204, nil, nil, http2.Nothing)
	}, nil)
	release := sync.OnceFunc(func() { close(finish) })
	defer release()
	c := r.client()
	running := c.open(true, "/")
	<-began
	r.server.Drain()
	late := c.open(false, "/late")
	_ = c.WriteData(late, false, []byte("late"))
	_ = c.trailers(late)
	c.ping()
	release()
	if err := c.until(func(f framing.Frame) bool { return f.Header().StreamID == running }); err != nil {
		t.Errorf("the running one was not answered: %v", err)
	}
}

// Nor is it when all streams that may be open are reset at a time.
func TestTrailersBehindManyResets(t *testing.T) {
	r := newRig(t, func(st *http2.Stream) { _ = st.Start(403, nil, nil, http2.Nothing) }, nil)
	c := r.client()
	var open []uint32
	for range 50 {
		open = append(open, c.open(false, "/"))
	}
	resets := 0
	if err := c.until(func(f framing.Frame) bool {
		if _, ok := f.(*framing.RSTStreamFrame); ok {
			resets++
		}
		return resets == len(open)
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range open {
		_ = c.trailers(id)
	}
	c.ping()
}

// A client that resets streams whose bodies nobody has read may send as much again at once,
// whatever their handlers are at.
func TestResetsGiveTheirRoomBack(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, func(*http2.Stream) { <-hold }, func(o *http2.Options) { o.IdleTimeout = time.Hour })
	defer close(hold)
	c := r.client()
	id := c.open(false, "/")
	for range 8 {
		_ = c.WriteData(id, false, make([]byte, 15<<10))
	}
	c.ping() // so that nothing else is about to be written
	_ = c.WriteRSTStream(id, framing.ErrCodeCancel)
	if err := c.until(func(f framing.Frame) bool {
		more, ok := f.(*framing.WindowUpdateFrame)
		return ok && more.StreamID == 0 && more.Increment == 8*15<<10
	}); err != nil {
		t.Errorf("the room was not given back: %v", err)
	}
}

// Trailers that cannot be read end the connection: the table of the fields behind them
// would be another than the client's.
func TestTrailersWithTooMuchPadding(t *testing.T) {
	hold := make(chan struct{})
	r := newRig(t, func(*http2.Stream) { <-hold }, nil)
	defer close(hold)
	c := r.client()
	id := c.open(false, "/")
	_ = c.WriteRawFrame(framing.FrameHeaders, framing.FlagHeadersPadded|framing.FlagHeadersEndHeaders|framing.FlagHeadersEndStream, id, []byte{200, 0x40})
	if code := c.ends(); code != framing.ErrCodeProtocol {
		t.Errorf("it ended with %v", code)
	}
}

// Nor can a head that ends before what its flags announce, which has a word of its own
// (RFC 9113 section 4.2), and a client that pushes is told what is wrong however short it is.
func TestHeadsShorterThanTheirFlags(t *testing.T) {
	for name, test := range map[string]struct {
		kind    framing.FrameType
		flags   framing.Flags
		payload []byte
		want    framing.ErrCode
	}{
		"padding":              {framing.FrameHeaders, framing.FlagHeadersPadded, nil, framing.ErrCodeFrameSize},
		"priority":             {framing.FrameHeaders, framing.FlagHeadersPriority, make([]byte, 4), framing.ErrCodeFrameSize},
		"padding and priority": {framing.FrameHeaders, framing.FlagHeadersPadded | framing.FlagHeadersPriority, make([]byte, 5), framing.ErrCodeFrameSize},
		"a push":               {framing.FramePushPromise, 0, make([]byte, 3), framing.ErrCodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(*http2.Stream) {}, nil)
			c := r.client()
			_ = c.WriteRawFrame(test.kind, test.flags|framing.FlagHeadersEndHeaders, 1, test.payload)
			if code := c.ends(); code != test.want {
				t.Errorf("it ended with %v", code)
			}
		})
	}
}
