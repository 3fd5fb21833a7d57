package http2

import (
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/http2"
)

// tick ends what has not moved for the idle timeout: streams, and a connection that has
// none. One timer for the connection: a deadline for each read and write would cost more
// than they do.
func (c *conn) tick() {
	idle, now := c.s.o.IdleTimeout, time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	for _, st := range c.streams {
		st.expire(now.Add(-idle))
	}
	c.ask(now)
	c.later()
	c.far = c.unused()
	left := idle - now.Sub(c.changed)
	switch {
	case !c.far:
		c.timer.Reset(idle / 8)
	case c.goneAway:
		go c.retire()
	case left > 0:
		c.timer.Reset(left)
	default:
		c.depart(codeNone) // what the client has sent meanwhile is not taken, and it is told
	}
}

// patience is since when the client could have done what a stream waits for, and has not:
// open a window for its answer, or send more of its body. What waits for the network instead
// has the time of its writes, which a client gets again with each byte that it takes. The
// zero value waits for nothing.
type patience struct {
	since time.Time // it was waited for, or it last moved
	read  time.Time // the client had read all that came before; zero: not that we know
}

func (p *patience) begin() { *p = patience{since: time.Now()} }

// moved is told that the client has done something for it.
func (p *patience) moved() {
	if !p.since.IsZero() {
		p.begin()
	}
}

// over reports whether it began before latest, when the client last took anything at took.
func (p *patience) over(latest, took time.Time) bool {
	switch {
	case p.since.IsZero():
		return false
	case !p.read.IsZero():
		return p.read.Before(latest)
	}
	return p.since.Before(latest) && took.Before(latest)
}

// wonders reports whether the client is waited for, and may not know that yet.
func (p *patience) wonders() bool { return !p.since.IsZero() && p.read.IsZero() }

// ask sends a PING when a stream waits for the client: a slow one may have much of ours to
// read before it finds out what it could do. The caller holds mu.
func (c *conn) ask(now time.Time) {
	if !c.asked.IsZero() {
		return
	}
	for _, st := range c.streams {
		if st.sending.wonders() || st.reading.wonders() {
			c.asked = now
			c.out = append(appendFrameHead(c.out, 8, http2.FramePing, 0, 0), "progress"...)
			return
		}
	}
}

// hear takes the answer: the client has read all that was sent before.
func (c *conn) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked.IsZero() {
		return
	}
	now := time.Now()
	for _, st := range c.streams {
		for _, p := range [...]*patience{&st.sending, &st.reading} {
			if p.wonders() && !p.since.After(c.asked) {
				p.read = now
			}
		}
	}
	c.asked, c.took = time.Time{}, now
}

// expire ends a read or a write that has waited for the client since before latest. The
// caller holds mu.
func (st *Stream) expire(latest time.Time) {
	if st.c.window > 0 && !st.talks() && st.reading.over(latest, st.c.took) {
		if st.listens && st.status == 0 && !st.reading.read.IsZero() {
			st.reading.begin() // it is there, and is asked again
		} else {
			st.tooLate()
		}
	}
	if st.sending.over(latest, st.c.took) {
		st.reset(http2.ErrCodeCancel, fmt.Errorf("http2: the client took nothing: %w", os.ErrDeadlineExceeded))
	}
}

// talks reports whether the client may pause in its body for as long as it likes: its answer
// has begun and is no refusal, as in a call of gRPC that talks both ways, whose client may only
// listen. How long that may rest is for whoever answers. The caller holds mu.
func (st *Stream) talks() bool { return st.status != 0 && st.status < http.StatusMultipleChoices }

// Listens says that the client may pause in its body before it is answered too, as long as it is
// there: it answers a PING within the idle time. How long an answer may take is for whoever gives it.
func (st *Stream) Listens() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	st.listens = true
}

// tooLate ends the reading of the body. The caller holds mu.
func (st *Stream) tooLate() {
	if st.late == nil {
		st.late = fmt.Errorf("http2: the body did not come in time: %w", os.ErrDeadlineExceeded)
		st.moved.Broadcast()
	}
}
