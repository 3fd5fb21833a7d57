package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/services/rest/gulp"
)

// frameHead is the length of what stands before each frame (RFC 9113 section 4.1).
const frameHead = 9

// Windows and frames of HTTP/2 before the upstream has said anything about them,
// and at most (RFC 9113 sections 4.2, 6.5.2 and 6.9).
const (
	firstWindow = 1<<16 - 1
	sendFrame   = 16 << 10
	mostWindow  = math.MaxInt32
)

// turnWindow is what an upstream may send ahead of us, in bytes: it lies in the kernel's
// buffers, since nobody reads before the caller takes it. A path of a tenth of a second
// carries ten times as much a second.
const turnWindow = 16 << 20

// windowStep is how much is taken of an answer, in bytes, before the upstream is told
// that it may send as much again.
const windowStep = turnWindow / 4

// outRoom is how many bytes of answers to the upstream's own frames may wait before
// they are written, outMost how many bytes in all: an upstream that asks and does not
// read would fill our memory.
const (
	outRoom = 4 << 10
	outMost = 256 << 10
)

// mostToAnswer is how long the answers to what came while nobody had the connection may
// take to be written, for which a request waits.
const mostToAnswer = 100 * time.Millisecond

// lastStream is the last stream that a client can open (RFC 9113 section 5.1.1).
const lastStream = math.MaxInt32

// Ends of a connection of HTTP/2 that are the upstream's doing.
var (
	errUnprocessed = errors.New("the upstream takes no more requests on this connection") // it has not acted on this one
	errFrames      = errors.New("malformed HTTP/2 from the upstream")
	errNothingYet  = errors.New("no frame has come")
)

// h2conn is the HTTP/2 of a wire: one stream at a time, for callers of HTTP/1.1 who
// take turns. The goroutine of the exchange writes its frames and reads those of the
// answer; nobody reads while the wire lies in the rack, and what has come by then is
// looked at before the next turn. Callers of HTTP/2 share connections of
// golang.org/x/net instead (h2pool.go).
type h2conn struct {
	w     *wire
	leave func() // tells the pool that the connection has gone; may be called again

	framer  *http2.Framer // reads from the wire, writes to out
	turns   atomic.Int32  // taken of the rack
	stream  uint32        // of the exchange, the last one that was opened
	greeted bool          // the upstream's settings have come, which are its first frame
	gone    bool          // takes no more streams
	before  func()        // called before the head of a frame is waited for; may be nil
	most    time.Duration // of one write

	left, pad int   // bytes of the frame of data that is being read
	ends      bool  // it is the last of its stream
	window    int64 // that the upstream may send yet, on the connection and on the stream
	taken     int64 // since it was last told

	writing sync.Mutex // held by who writes to the wire

	mu       sync.Mutex // of what follows, which reader and sender share
	more     sync.Cond  // there is room to send, or never will be
	out      bytes.Buffer
	spare    []byte // for what is being written
	block    bytes.Buffer
	enc      *hpack.Encoder
	connRoom int64 // that may be sent
	room     int64 // on the stream
	initial  int64 // of a stream
	mostHead uint64
	cut      bool
}

// newTurns makes a wire of a connection that chose HTTP/2, and tells the upstream what
// it may send with its first request.
func (l *lines) newTurns(conn *link, s spot) *wire {
	w := l.newWire(conn, spot{s.origin, schemeTurns})
	c := newH2conn(w, l.o.IdleTimeout)
	w.h2 = c
	l.pool.stays(s.origin, w)
	c.leave = func() { l.pool.leaves(s.origin, w) }
	return w
}

// newH2conn begins the HTTP/2 of a wire. One write may take as long as most.
func newH2conn(w *wire, most time.Duration) *h2conn {
	c := &h2conn{w: w, most: most, window: turnWindow, connRoom: firstWindow, initial: firstWindow, mostHead: math.MaxUint64}
	c.more.L = &c.mu
	c.framer = http2.NewFramer(&c.out, w.br)
	c.framer.SetMaxReadFrameSize(receiveFrame)
	c.framer.MaxHeaderListSize = headLimit
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	c.enc = hpack.NewEncoder(&c.block)
	c.out.WriteString(http2.ClientPreface)
	_ = c.framer.WriteSettings( // to memory, as all of the framer: it cannot fail
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: turnWindow},
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: receiveFrame},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: headLimit},
	)
	_ = c.framer.WriteWindowUpdate(0, turnWindow-firstWindow)
	c.stream, c.ends = math.MaxUint32, true // so that the first is 1
	return c
}

// schemeTurns is the scheme of spots where connections of HTTP/2 lie.
const schemeTurns = "https, h2"

// end tells whoever waits for room that there will be none. It may be called from any
// goroutine, and of a nil one.
func (c *h2conn) end() {
	if c == nil {
		return
	}
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	c.more.Broadcast()
}

// usable reports whether the next exchange may have the connection, and reads what has
// come while nobody had it: the upstream may have said that it takes no more.
func (c *h2conn) usable() bool {
	w := c.w
	if w.br.Buffered() == 0 && w.raw != nil && gulp.Quiet(w.raw) && w.gulp.Drained(w.got) {
		return !c.gone
	}
	w.reads.Forget()
	w.writes.Forget()
	defer func(most time.Duration) { c.most = most }(c.most)
	c.most = mostToAnswer
	for end := time.Now().Add(mostToAnswer); time.Now().Before(end); {
		until := time.Unix(1, 0) // only what TLS has in memory
		if w.raw == nil || !gulp.Quiet(w.raw) {
			until = soon()
		}
		_ = w.conn.SetReadDeadline(until)
		head, err := c.advance(true)
		switch {
		case late(err):
			_ = w.conn.SetReadDeadline(time.Time{})
			if !w.gulp.Midway() { // so TLS holds nothing
				w.gulp.Sync(w.overhead)
				w.got = 0
			}
			return !c.gone && w.br.Buffered() == 0 && c.flush() == nil
		case err != nil || head != nil || c.left > 0:
			return false
		}
	}
	return false // it never stops talking
}

// advance reads up to the next frame of the stream. It returns the head of an answer or
// its trailers, and nil for data, of which left bytes are to be read now. Without wait
// the error is errNothingYet when the next frame has not begun to come.
func (c *h2conn) advance(wait bool) (*http2.MetaHeadersFrame, error) {
	for {
		if c.w.br.Buffered() < frameHead {
			if !wait && !c.here() {
				return nil, errNothingYet
			}
			if c.flush() != nil {
				c.gone = true // what has come can be read all the same
			}
			if c.before != nil && c.w.br.Buffered() < frameHead {
				c.before()
			}
		}
		head, err := c.w.br.Peek(frameHead)
		if err != nil {
			return nil, cutShort(err)
		}
		kind := http2.FrameType(head[3])
		if !c.greeted && kind != http2.FrameSettings { // RFC 9113 section 3.4
			return nil, fmt.Errorf("%w: something before its settings", errFrames)
		}
		c.greeted = true
		if kind == http2.FrameData {
			return nil, c.begin(head)
		}
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.gone = true // a part of it may have been read: where the next begins is not known
			return nil, malformedFrame(err)
		}
		if head, err := c.take(frame); head != nil || err != nil {
			return head, err
		}
	}
}

// malformedFrame is the error of a frame that could not be read: the network's own, or
// what is wrong with it.
func malformedFrame(err error) error {
	var connection http2.ConnectionError
	var stream http2.StreamError
	switch {
	case errors.As(err, &connection), errors.As(err, &stream), errors.Is(err, http2.ErrFrameTooLarge):
		return fmt.Errorf("%w: %w", errFrames, err)
	}
	return cutShort(err)
}

// cutShort is the error of a read where the end of the connection is the end of nothing.
func cutShort(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// here reports whether the head of a frame has come, without waiting for one.
func (c *h2conn) here() bool {
	w := c.w
	if !w.gulp.Ready(w.got) {
		return false
	}
	w.dry = true
	_, err := w.br.Peek(frameHead)
	w.dry = false
	if err != nil && !w.gulp.Midway() { // so TLS holds nothing
		w.gulp.Sync(w.overhead)
		w.got = 0
	}
	return err == nil
}

// begin takes the head of a frame of data (RFC 9113 section 6.1).
func (c *h2conn) begin(head []byte) error {
	size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
	flags, stream := http2.Flags(head[4]), uint32(head[5]&0x7f)<<24|uint32(head[6])<<16|uint32(head[7])<<8|uint32(head[8])
	if stream != c.stream || c.ends || size > receiveFrame {
		return fmt.Errorf("%w: data of another stream, or too much of it", errFrames)
	}
	if c.window -= int64(size); c.window < 0 {
		return fmt.Errorf("%w: more data than the window has room for", errFrames)
	}
	c.taken += int64(size)
	_, _ = c.w.br.Discard(frameHead) // it was seen
	c.left, c.pad, c.ends = size, 0, flags.Has(http2.FlagDataEndStream)
	if !flags.Has(http2.FlagDataPadded) {
		return nil
	}
	if size == 0 {
		return fmt.Errorf("%w: padding without its length", errFrames)
	}
	pad, err := c.w.br.ReadByte()
	if err != nil {
		return cutShort(err)
	}
	if c.pad, c.left = int(pad), size-1-int(pad); c.left < 0 {
		return fmt.Errorf("%w: more padding than data", errFrames)
	}
	return nil
}

// take does what a frame asks for that is not one of data, and returns it when it is
// a head.
func (c *h2conn) take(frame http2.Frame) (*http2.MetaHeadersFrame, error) {
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		if f.StreamID != c.stream || c.ends {
			return nil, fmt.Errorf("%w: a head on another stream", errFrames)
		}
		return f, nil
	case *http2.RSTStreamFrame:
		if f.StreamID == c.stream && !c.ends {
			return nil, http2.StreamError{StreamID: f.StreamID, Code: f.ErrCode}
		}
	case *http2.GoAwayFrame:
		c.gone = true
		if f.LastStreamID < c.stream {
			return nil, fmt.Errorf("%w: %w", errUnprocessed, goneAway{f.ErrCode})
		}
	case *http2.PushPromiseFrame:
		return nil, fmt.Errorf("%w: a push, which was not allowed", errFrames)
	case *http2.PingFrame:
		if !f.IsAck() {
			return nil, c.reply(func() { _ = c.framer.WritePing(true, f.Data) })
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			return nil, nil
		}
		return nil, c.settings(f)
	case *http2.WindowUpdateFrame:
		return nil, c.widen(f)
	}
	return nil, nil
}

// settings applies what the upstream says of itself, and says so before anything is
// written that heeds it.
func (c *h2conn) settings(f *http2.SettingsFrame) (err error) {
	full := c.reply(func() {
		err = f.ForeachSetting(c.setting)
		if err == nil && c.room > mostWindow {
			err = fmt.Errorf("%w: a window that is too large", errFrames)
		}
		c.more.Broadcast()
		_ = c.framer.WriteSettingsAck()
	})
	if err != nil {
		return err
	}
	return full
}

// setting applies one of them. The caller holds mu.
func (c *h2conn) setting(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return fmt.Errorf("%w: %w", errFrames, err)
	}
	switch s.ID {
	case http2.SettingInitialWindowSize:
		c.room += int64(s.Val) - c.initial
		c.initial = int64(s.Val)
	case http2.SettingHeaderTableSize:
		c.enc.SetMaxDynamicTableSize(s.Val)
	case http2.SettingMaxHeaderListSize:
		c.mostHead = uint64(s.Val)
	case http2.SettingMaxConcurrentStreams:
		c.gone = c.gone || s.Val == 0
	}
	return nil
}

// widen makes room to send.
func (c *h2conn) widen(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.StreamID {
	case 0:
		c.connRoom += int64(f.Increment)
	case c.stream:
		c.room += int64(f.Increment)
	}
	if c.connRoom > mostWindow || c.room > mostWindow {
		return fmt.Errorf("%w: a window that is too large", errFrames)
	}
	c.more.Broadcast()
	return nil
}
