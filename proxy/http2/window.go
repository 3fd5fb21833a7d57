package http2

import (
	"time"

	"golang.org/x/net/http2"
)

// takeWindow makes room to send.
func (c *conn) takeWindow(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = time.Now()
	if f.StreamID == 0 {
		none := c.room <= 0
		if c.room += int64(f.Increment); c.room > mostWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		if none { // somebody may wait for it
			for _, st := range c.streams {
				if st.room > 0 {
					st.sending.moved()
				}
				st.moved.Broadcast()
			}
		}
		return nil
	}
	st, err := c.of(f.StreamID)
	answers := c.replies > 0 && f.Increment > 0
	if answers {
		c.replies--
	}
	if st == nil {
		if err == nil && answers { // of data that the stream had sent before it ended
			return nil
		}
		return c.stray(err)
	}
	if !st.widen(int64(f.Increment)) {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	}
	return nil
}

// widen gives an answer more room, or less, and reports whether a window can be so wide.
// The caller holds mu.
func (st *Stream) widen(more int64) bool {
	if st.room += more; st.room > mostWindow {
		return false
	}
	if more > 0 {
		st.sending.moved()
	}
	st.moved.Broadcast()
	return true
}

// repay takes note of bytes of a body that nobody reads.
func (c *conn) repay(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owe(n)
	c.later()
}

// owe takes note of bytes of a body that have been read, and tells the client that it may
// send as many again once they are many, or more than it may send yet: bodies that nobody
// reads may have all other room. The caller holds mu.
func (c *conn) owe(n int64) {
	c.credit += n
	if c.credit == 0 || c.credit < min(int64(c.s.o.ConnWindow)/4, c.window) {
		return
	}
	c.give(c.credit)
}

// give tells the client that it may send more, which may be more than has been read: then so
// much less is owed. The caller holds mu.
func (c *conn) give(more int64) {
	c.out = appendWindow(c.out, 0, more)
	if c.window <= 0 {
		for _, st := range c.streams {
			st.reading.moved()
		}
	}
	c.window += more
	c.credit -= more
}

// stir has the client look at what has come, with a frame that means nothing else: one that was
// answered before its body ended may have read the end of its answer and not looked since, as
// libcurl 7.88 does, which then turns around for ever, waiting for more. The caller holds mu.
func (c *conn) stir() {
	c.give(max(c.credit, 1))
	c.later()
}

func (st *Stream) owe(n int64) {
	c := st.c
	c.owe(n)
	if st.credit += n; st.credit >= int64(c.s.o.StreamWindow)/4 && !st.ended && !st.spurns {
		c.out = appendWindow(c.out, st.id, st.credit)
		st.window += st.credit
		st.credit = 0
	}
	c.later()
}
