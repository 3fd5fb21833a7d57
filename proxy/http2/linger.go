package http2

import (
	"cmp"
	"errors"
	"os"
	"time"
)

// How long a client that was answered says nothing before it is taken to wait, which is more
// than a way there and back, and for how long and how many bytes it may go on.
const (
	quietTime   = 500 * time.Millisecond
	lingerTime  = 30 * time.Second
	lingerLimit = 1 << 30
)

// Discard forgets the body, what has come of it and what will, which is no more than may wait
// to be read until the handler has returned. It is for who does not read, and may take long to
// say so: the client takes the answer when it likes.
func (st *Stream) Discard() {
	st.c.mu.Lock()
	defer st.c.mu.Unlock()
	st.spurns = true
	st.forget()
}

// forget drops what has come of a body that is not wanted. Other streams may send as much, this
// one not yet. The caller holds mu.
func (st *Stream) forget() {
	if !st.spurns || st.in.empty() {
		return
	}
	n := st.in.drop(st.c.s)
	st.credit += n
	st.c.owe(n)
	st.c.later()
}

// linger lets a client that was answered while it sends its body find that out, and takes
// what it still sends, for a while. A reset behind the answer is right (RFC 9113 section
// 8.1), but clients lose the answer over it, curl among them, and with a refusal its reason;
// Python's httpx then waits for ever to send the rest. The caller holds mu, which is free
// meanwhile.
func (st *Stream) linger() {
	c := st.c
	sends := func() bool { return st.done && !st.ended && st.err == nil && c.ended == nil }
	if !sends() || st.Head.Malformed != "" || errors.Is(st.late, os.ErrDeadlineExceeded) { // it had its time
		return
	}
	st.cancel(nil) // the handler has returned
	if st.late == nil {
		st.late = errHalted
	}
	st.spurns = false
	st.owe(0) // it may go on
	over, begun := false, time.Now()
	quiet := cmp.Or(c.s.o.QuietTime, quietTime)
	timer := time.AfterFunc(quiet, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		over = true
		st.moved.Broadcast()
	})
	defer timer.Stop()
	c.flush()
	for took := int64(0); sends() && !over; st.moved.Wait() {
		n := st.in.drop(c.s)
		if n == 0 {
			continue
		}
		most := lingerTime
		if c.goneAway {
			most = lingering
		}
		timer.Reset(min(quiet, most-time.Since(begun)))
		if took += n; took < lingerLimit {
			st.owe(n)
		} else { // other streams may go on, this one may not
			c.owe(n)
			c.later()
		}
	}
}
