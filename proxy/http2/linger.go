package http2

import (
	"errors"
	"os"
	"time"
)

// quietTime is how long a client that was answered says nothing before it is taken to wait.
const quietTime = 100 * time.Millisecond

// linger lets a client that was answered while it sends its body find that out, and takes
// what it still sends, for a while. A reset behind the answer is right (RFC 9113 section
// 8.1), but clients lose the answer over it, curl among them, and with a refusal its reason.
// The caller holds mu, which is free meanwhile.
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
	over, end := false, time.Now().Add(lingering)
	timer := time.AfterFunc(quietTime, func() {
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
		timer.Reset(min(quietTime, time.Until(end)))
		if took += n; took < lingerBytes {
			st.owe(n)
		} else { // other streams may go on, this one may not
			c.owe(n)
			c.later()
		}
	}
}
