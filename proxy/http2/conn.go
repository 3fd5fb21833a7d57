package http2

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// Windows, frames and tables before anybody has said anything about them, and at most
// (RFC 9113 sections 4.2, 6.5.2 and 6.9).
const (
	firstWindow = 1<<16 - 1
	mostWindow  = math.MaxInt32
	firstFrame  = 16 << 10 // also the most that we take, and that we send: every client takes it
	tableSize   = 4 << 10
	frameHead   = 9 // bytes before the payload of a frame
)

// Bounds of what costs the client nothing.
const (
	readBuffer   = 4 << 10
	idleFrames   = 2000 // frames that say nothing, in a second
	mostReplies  = 1 << 14
	streamFrames = 4       // of them for each stream that is opened: its priority, or what comes once it is closed
	mostSettings = 32      // in one frame
	pendingTimes = 4       // handlers that wait for their turn, in times of the streams that may be open
	blockTimes   = 2       // what is read of a field block, and told that it is too large, in times of the bytes that are kept
	mostHeads    = 8 << 20 // bytes of the heads whose handlers have not returned: a byte of a field block may stand for thousands
)

// codeNone is an end without an error.
const codeNone = http2.ErrCodeNo

// errGone is why nothing moves on a connection that has ended.
var errGone = errors.New("http2: the client's connection has ended")

// conn is one connection. The goroutine of run reads; everybody writes to out, and one of
// them to the network at a time.
type conn struct {
	net.Conn
	s        *Server
	ctx      context.Context
	handlers sync.WaitGroup

	// Of the reading goroutine.
	br      *bufio.Reader
	framer  *http2.Framer
	dec     *hpack.Decoder
	list    fieldList
	names   map[string]string // canonical forms of field names
	reads   http1.Deadline
	armed   bool // a read deadline may be set
	greeted bool // the client's settings have come
	said    int  // frames that said nothing
	since   time.Time

	mu       sync.Mutex
	streams  map[uint32]*Stream // that are not closed
	last     uint32             // the highest stream
	resets   []uint32           // streams that were reset last, whose frames may be under way
	nextOf   int
	running  int // handlers
	pending  []*Stream
	heads    int   // bytes of the heads of all whose handlers have not returned
	window   int64 // that the client may send yet
	credit   int64 // read since it was told
	room     int64 // that we may send yet
	replies  int   // frames of data that were sent, each of which the client may answer with a WINDOW_UPDATE
	initial  int64 // of a stream
	goneAway bool
	lastOf   uint32 // of the GOAWAY
	ended    error  // nothing moves any more

	enc     *hpack.Encoder
	block   bytes.Buffer
	out     []byte // frames that wait
	writing bool   // somebody writes them
	roomy   sync.Cond
	lull    *time.Timer // has out written when nobody else does; nil before the first time
	lulled  bool        // it runs

	timer   *time.Timer
	far     bool // the timer waits for the end of an idle connection
	changed time.Time
	took    time.Time // the client last opened a window, or answered us
	asked   time.Time // our PING was sent that it has not answered; zero: none is
}

func (s *Server) newConn(ctx context.Context, nc net.Conn) *conn {
	c := &conn{
		Conn: nc, s: s, ctx: ctx, br: bufio.NewReaderSize(nc, readBuffer), names: map[string]string{},
		streams: map[uint32]*Stream{}, window: int64(s.o.ConnWindow), room: firstWindow, initial: firstWindow,
		changed: time.Now(),
	}
	c.roomy.L = &c.mu
	c.timer, c.far = time.AfterFunc(s.o.IdleTimeout, c.tick), true
	c.framer = http2.NewFramer(nil, c.br)
	c.framer.SetMaxReadFrameSize(firstFrame)
	c.dec = hpack.NewDecoder(tableSize, c.list.add)
	c.dec.SetMaxStringLength(blockTimes * s.o.HeadBytes)
	c.enc = hpack.NewEncoder(&c.block)
	c.enc.SetMaxDynamicTableSizeLimit(tableSize)
	c.greet() // before anybody can say anything else
	return c
}

// run serves the connection until it ends.
func (c *conn) run() {
	c.mu.Lock()
	c.later()
	c.mu.Unlock()
	err := c.read()
	var code http2.ConnectionError
	fault := errGone
	switch {
	case errors.As(err, &code):
		c.goAway(http2.ErrCode(code))
		switch {
		case errors.Is(err, ErrTooLarge):
			fault = ErrTooLarge
		case http2.ErrCode(code) == http2.ErrCodeEnhanceYourCalm:
			fault = ErrFlood
		default:
			fault = ErrStream
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		fault = ErrStalled
	}
	c.end(fmt.Errorf("%w: %w", fault, err))
	c.hangUp(code != 0)
}

// greet says what we are.
func (c *conn) greet() {
	o := &c.s.o
	settings := []http2.Setting{
		{ID: http2.SettingMaxConcurrentStreams, Val: uint32(o.Streams)},
		{ID: http2.SettingInitialWindowSize, Val: uint32(o.StreamWindow)},
		{ID: http2.SettingMaxHeaderListSize, Val: uint32(o.HeadBytes)},
	}
	c.out = appendFrameHead(c.out, len(settings)*settingSize, http2.FrameSettings, 0, 0)
	for _, s := range settings {
		c.out = append(c.out, byte(s.ID>>8), byte(s.ID), byte(s.Val>>24), byte(s.Val>>16), byte(s.Val>>8), byte(s.Val))
	}
	if more := o.ConnWindow - firstWindow; more > 0 {
		c.out = appendWindow(c.out, 0, int64(more))
	}
}

// end lets nothing move any more: handlers find out, and their requests end.
func (c *conn) end(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = why
	}
	c.timer.Stop()
	for _, st := range c.streams {
		st.fail(why)
	}
	clear(c.streams)
	for _, st := range c.pending { // their handlers never began
		st.cancel(nil)
	}
	c.pending = nil
	c.roomy.Broadcast()
}

// hangUp closes the connection such that a client that was told why it ends can still
// read that, although we have not read all it sent.
func (c *conn) hangUp(told bool) {
	defer func() { _ = c.Close() }()
	defer time.AfterFunc(2*lingering, func() { _ = c.Close() }).Stop() // a client that reads nothing
	if !told || !c.lastWords() {
		return
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(lingering))
	_, _ = io.CopyN(io.Discard, c.br, lingerBytes)
}

// How long, and for how many bytes, a connection that has ended is still read from.
const (
	lingering   = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// goAway says that no more streams are taken (RFC 9113 section 6.8), once, and why.
func (c *conn) goAway(code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.depart(code)
}

// depart does. The caller holds mu.
func (c *conn) depart(code http2.ErrCode) {
	if c.goneAway && code == codeNone {
		return
	}
	if !c.goneAway {
		c.lastOf = c.last
	}
	c.goneAway = true
	c.out = appendFrameHead(c.out, 8, http2.FrameGoAway, 0, 0)
	c.out = appendWord(appendWord(c.out, c.lastOf), uint32(code))
	c.rest()
	c.later()
}

// rest has a connection that takes no more streams end soon when it has none. The caller
// holds mu.
func (c *conn) rest() {
	if c.goneAway && c.ended == nil && c.unused() {
		c.timer.Reset(lingering)
	}
}

// quiet reports whether there has been no stream for d, and nothing waits to be written.
func (c *conn) quiet(d time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unused() && !c.writing && len(c.out) == 0 && time.Since(c.changed) > d
}

// unused reports whether there is no stream. The caller holds mu.
func (c *conn) unused() bool { return len(c.streams) == 0 && c.running == 0 }

// enter counts a stream. The caller holds mu.
func (c *conn) enter(st *Stream) {
	c.streams[st.id] = st
	c.changed = time.Now()
	if c.far {
		c.far = false
		c.timer.Reset(c.s.o.IdleTimeout / 8)
	}
}

// leave forgets a stream that is closed. The caller holds mu.
func (c *conn) leave(st *Stream) {
	if c.streams[st.id] == st {
		delete(c.streams, st.id)
		c.changed = time.Now()
	}
}

// retire ends a connection that takes no more streams and has none.
func (c *conn) retire() {
	c.lastWords()
	_ = c.Close()
}
