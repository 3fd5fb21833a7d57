package http2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// Stream is one request and its answer. Reading the body may be done by another goroutine
// than writing the answer; after the handler has returned both fail.
type Stream struct {
	Head *Head

	c      *conn
	id     uint32
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Under the connection's lock.
	moved  sync.Cond   // something has come, or may be sent, or nothing will
	err    error       // why nothing more can be read or sent; nil while it can
	late   error       // of a body that did not come in time, or is waited for no longer
	clock  *time.Timer // of the whole body; nil: it has none
	in     inbox
	spurns bool   // what comes of it is forgotten
	space  []byte // of the reading goroutine: what the frame of data fills
	got    int64  // bytes of the body
	ended  bool   // all of it has come, or all that will
	short  bool   // it is less than was announced
	window int64  // that the client may send yet
	credit int64  // read since it was told
	tail   http.Header

	room    int64 // that we may send yet
	sending patience
	reading patience
	listens bool // it may be silent before it is answered
	status  int  // of the final head that was sent; 0: none
	done    bool // the answer has ended
}

// Context ends when the client wants the answer no more, or is gone, and when the handler
// has returned. Its cause is what Blame makes of it when the client's frames are why.
func (st *Stream) Context() context.Context { return st.ctx }

// open begins a stream. The caller holds mu.
func (c *conn) open(id uint32, head *Head) error {
	if len(c.pending) >= pendingTimes*c.s.o.Streams { // opened and reset, over and over (CVE-2023-44487)
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	st := &Stream{Head: head, c: c, id: id, ended: head.Ended, window: int64(c.s.o.StreamWindow), room: c.initial}
	st.moved.L = &c.mu
	st.ctx, st.cancel = context.WithCancelCause(c.ctx)
	c.said = max(0, c.said-streamFrames)
	c.heads += head.size
	c.enter(st)
	c.pending = append(c.pending, st)
	c.begin()
	return nil
}

// begin starts the handlers whose turn it is. One that was reset keeps its turn until its
// handler has returned. The caller holds mu.
func (c *conn) begin() {
	for len(c.pending) > 0 && c.running < c.s.o.Streams {
		st := c.pending[0]
		c.pending = c.pending[1:]
		if st.err != nil {
			st.cancel(nil)
			c.heads -= st.Head.size
			continue
		}
		c.running++
		c.handlers.Add(1)
		c.s.o.Go(st.handle)
	}
	if len(c.pending) == 0 {
		c.pending = nil
	}
}

// handle runs the handler and ends the stream.
func (st *Stream) handle() {
	c := st.c
	defer c.handlers.Done()
	defer st.cancel(nil)
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		st.linger()
		st.close()
		c.running--
		c.heads -= st.Head.size
		c.changed = time.Now()
		c.begin()
		c.rest()
		c.flush()
	}()
	c.s.o.Handler(st)
}

// close ends what the handler has left open. The caller holds mu.
func (st *Stream) close() {
	if st.clock != nil { // else it would keep the stream in memory until it rings
		st.clock.Stop()
	}
	switch {
	case st.err != nil:
	case st.Head.Malformed != "": // it was answered, which RFC 9113 section 8.1.1 allows
		st.reset(http2.ErrCodeProtocol, errOver)
	case !st.done:
		st.reset(http2.ErrCodeInternal, errOver)
	case !st.ended: // the rest of the body is not wanted (section 8.1)
		st.reset(http2.ErrCodeNo, errOver)
	}
	st.fail(errOver)
	st.c.leave(st)
}

// errOver is what a stream returns whose handler has returned.
var errOver = errors.New("http2: the request is over")

// What the client did that ended a stream, or its connection and so all streams of it: the
// error of their bodies.
var (
	// ErrStream is what cannot be read: more or less of a body than was announced, or
	// frames that are malformed.
	ErrStream = errors.New("http2: what the client sent is malformed")
	// ErrFlood is more frames that say nothing, or want an answer, than are taken.
	ErrFlood = errors.New("http2: the client sent more frames than are taken")
	// ErrStalled is a frame that began and did not come in time.
	ErrStalled = errors.New("http2: a frame of the client did not come in time")
	// ErrTooLarge is a head so far over the limit that it is not read to its end.
	ErrTooLarge = errors.New("http2: a head of the client is far over the limit")
)

// blame is the cause of a stream's end, nil where its client is gone, or wanted it so.
func (s *Server) blame(why error) error {
	switch {
	case !slices.ContainsFunc([]error{ErrStream, ErrFlood, ErrStalled, ErrTooLarge}, func(fault error) bool { return errors.Is(why, fault) }):
		return nil
	case s.o.Blame == nil:
		return why
	}
	return s.o.Blame(why)
}

// fail lets nothing more be read or sent. The caller holds mu.
func (st *Stream) fail(why error) {
	if st.err != nil {
		return
	}
	st.err = why
	st.c.owe(st.in.drop(st.c.s))
	st.cancel(st.c.s.blame(why))
	st.moved.Broadcast()
	st.c.roomy.Broadcast()
}

// reset ends the stream for both sides. The caller holds mu.
func (st *Stream) reset(code http2.ErrCode, why error) {
	if st.err == nil {
		st.c.sendReset(st.id, code)
		st.fail(why)
	}
	st.c.leave(st)
}

// shut forgets a stream that has ended for both sides, although its handler has not
// returned: the client may open another one now. The caller holds mu.
func (st *Stream) shut() {
	if st.done && st.ended {
		st.c.leave(st)
	}
}

// Last tells the client to open no more streams: the connection ends with those it has.
func (st *Stream) Last() { st.c.goAway(codeNone) }

// ReadUntil gives the whole body a time, until the result is called or the handler has
// returned.
func (st *Stream) ReadUntil(end time.Time) (stop func() bool) {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	st.clock = time.AfterFunc(time.Until(end), func() {
		st.c.mu.Lock()
		defer st.c.mu.Unlock()
		st.tooLate()
	})
	return st.clock.Stop
}

// errHalted is the end of a body that nobody wants the rest of.
var errHalted = errors.New("http2: nobody reads the body any more")

// Halt ends a Read that waits for the client, and every later one that would.
func (st *Stream) Halt() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if st.late == nil {
		st.late = errHalted
		st.moved.Broadcast()
	}
}

// Read implements [io.Reader] with the request's body. It is for one goroutine at a time.
// [ErrStream], [ErrFlood], [ErrStalled] and [ErrTooLarge] are among its errors.
func (st *Stream) Read(p []byte) (int, error) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.in.empty() && !st.ended && st.err == nil {
		st.reading.begin()
		defer func() { st.reading = patience{} }()
	}
	for {
		switch {
		case st.err != nil:
			return 0, st.err
		case !st.in.empty():
			n := st.in.read(p, c.s)
			st.owe(int64(n))
			return n, nil
		case st.ended && !st.short:
			return 0, io.EOF
		case st.late != nil:
			return 0, st.late
		case len(p) == 0:
			return 0, nil
		}
		st.moved.Wait()
	}
}

// Trailer returns the trailer fields of the request, nil before the body's end and when
// there are none. The caller must not change them.
func (st *Stream) Trailer() http.Header {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if !st.ended || st.short || !st.in.empty() {
		return nil
	}
	return st.tail
}

// takeTrailer ends a body with its trailers. The caller holds mu.
func (c *conn) takeTrailer(id uint32, ends bool) error {
	st := c.streams[id]
	switch {
	case st == nil && c.underway(id):
		return c.nothing()
	case st == nil:
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	case st.ended:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeStreamClosed}
	case !ends || c.list.large:
		return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
	}
	tail, size := make(http.Header, len(c.list.fields)), 0
	for _, f := range c.list.fields {
		size += len(f.Name) + len(": ") + len(f.Value)
		if size > http1.MaxTrailers || strings.HasPrefix(f.Name, ":") || checkField(f) != "" {
			return http2.StreamError{StreamID: id, Code: http2.ErrCodeProtocol}
		}
		name := c.canonical(f.Name)
		tail[name] = append(tail[name], f.Value)
	}
	if len(tail) > 0 {
		st.tail = tail
	}
	return st.finishBody()
}

// finishBody is told that all of the body has come. What is shorter than it was said to be is
// malformed, unless an error is being answered: then its client may have given it up, as curl
// does, and gets the rest of the answer, if that comes soon: an upstream may wait for the rest
// of the body before. Nobody reads the end of such a body. Behind the answer the reset comes
// too late to harm it, and curl waits for something. The caller holds mu.
func (st *Stream) finishBody() error {
	if n := st.Head.Length; n >= 0 && n != st.got && st.Head.Malformed == "" && !st.Head.TooLarge {
		if st.status < http.StatusBadRequest || st.done {
			return http2.StreamError{StreamID: st.id, Code: http2.ErrCodeProtocol}
		}
		st.short, st.reading = true, patience{}
		time.AfterFunc(givenUpTime, st.giveUp)
	}
	st.ended = true
	st.moved.Broadcast()
	if st.done {
		st.c.stir()
	}
	st.shut()
	return nil
}

// givenUpTime is how long the rest of an answer may take whose client has given its body up.
const givenUpTime = 2 * time.Second

// giveUp breaks off what has not been answered by then.
func (st *Stream) giveUp() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	if !st.done {
		st.reset(http2.ErrCodeProtocol, fmt.Errorf("%w: it ended before its length", ErrStream))
		st.c.later()
	}
}

// underway reports whether frames of a stream that is closed may have left the client
// before it knew that: we have reset it, or never took it. The caller holds mu.
func (c *conn) underway(id uint32) bool {
	return c.goneAway && id > c.lastOf || slices.Contains(c.resets, id)
}
