package http2

import (
	goruntime "runtime"
	"time"

	"golang.org/x/net/http2"
)

// Bounds of what waits to be written on a connection, in bytes. Answers wait for room;
// what answers the client's own frames does not, so of that there is a most.
const (
	outRoom  = 64 << 10
	outMost  = 1 << 20
	outLeast = 4 << 10 // of a buffer
	turnsOne = 4       // writes in a row by one handler, whose own answer may have left long before
)

// flush writes what waits, unless somebody is writing, who takes it along. The caller
// holds mu, which is free meanwhile, and may have to wait for the client.
func (c *conn) flush() {
	if c.writing || len(c.out) == 0 || c.ended != nil {
		return
	}
	c.writing = true
	c.drain(turnsOne)
}

// later has what waits written by somebody else. The caller holds mu.
func (c *conn) later() {
	if c.writing || len(c.out) == 0 || c.ended != nil {
		return
	}
	c.writing = true
	go func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.drain(0)
	}()
}

// shortly is how long something waits for what most of the time comes at once: nobody notices.
const shortly = 20 * time.Millisecond

// soon has what waits written shortly, if nobody has written it before. One timer for the
// connection, which most of the time finds nothing. The caller holds mu.
func (c *conn) soon() {
	switch {
	case c.lulled:
		return
	case c.lull == nil:
		c.lull = time.AfterFunc(shortly, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.lulled = false
			c.flush()
		})
	default:
		c.lull.Reset(shortly)
	}
	c.lulled = true
}

// drain writes until nothing waits, or somebody else has to go on after so many turns.
// The caller has set writing and holds mu, which is free meanwhile.
func (c *conn) drain(turns int) {
	for turn := 1; len(c.out) > 0 && c.ended == nil; turn++ {
		if len(c.streams) > 1 { // who is ready to run first may have something to send as well
			c.mu.Unlock()
			goruntime.Gosched()
			c.mu.Lock()
		}
		buf := c.out
		c.out = nil
		c.mu.Unlock()
		_, err := c.Write(buf)
		c.recycle(buf)
		c.mu.Lock()
		c.roomy.Broadcast()
		if err != nil {
			c.cut()
			break
		}
		if turn == turns && len(c.out) > 0 {
			c.writing = false
			c.later()
			return
		}
	}
	c.writing = false
	c.roomy.Broadcast()
}

// cut ends a connection that cannot be written to: the reader finds out. The caller holds mu.
func (c *conn) cut() {
	c.ended = errGone
	for _, st := range c.streams {
		st.fail(errGone)
	}
	clear(c.streams)
	go func() { _ = c.Close() }() // which may tell those who hold locks of their own
}

// lastWords writes what waits, and reports whether all of it has left.
func (c *conn) lastWords() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.writing {
		c.roomy.Wait()
	}
	buf := c.out
	if c.out = nil; len(buf) == 0 {
		return true
	}
	c.writing = true
	c.mu.Unlock()
	_, err := c.Write(buf)
	c.mu.Lock()
	c.writing = false
	c.roomy.Broadcast() // somebody else may have last words too
	return err == nil
}

// lend makes out take n bytes more. A connection has a buffer only while something waits.
func (c *conn) lend(n int) {
	if cap(c.out)-len(c.out) >= n {
		return
	}
	if buf, ok := c.s.bufs.Get().(*[]byte); ok && cap(*buf) >= len(c.out)+n {
		c.out = append((*buf)[:0], c.out...)
		return
	}
	c.out = append(make([]byte, 0, max(len(c.out)+n, 2*cap(c.out), outLeast)), c.out...)
}

// recycle takes a buffer back. Bytes of one client never lie about in another's.
func (c *conn) recycle(buf []byte) {
	if cap(buf) < outLeast || cap(buf) > 2*outRoom {
		return
	}
	clear(buf)
	c.s.bufs.Put(&buf)
}

// appendFrameHead appends what stands before a payload (RFC 9113 section 4.1).
func appendFrameHead(dst []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	return appendWord(append(dst, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags)), stream)
}

func appendWord(dst []byte, n uint32) []byte {
	return append(dst, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func appendWindow(dst []byte, stream uint32, more int64) []byte {
	return appendWord(appendFrameHead(dst, 4, http2.FrameWindowUpdate, 0, stream), uint32(more))
}

// sendReset appends a RST_STREAM, and remembers the stream: what is under way for it is
// no fault. The caller holds mu.
func (c *conn) sendReset(id uint32, code http2.ErrCode) {
	if len(c.resets) < c.s.o.Streams {
		c.resets = append(c.resets, id)
	} else {
		c.resets[c.nextOf%len(c.resets)] = id
		c.nextOf++
	}
	c.out = appendWord(appendFrameHead(c.out, 4, http2.FrameRSTStream, 0, id), uint32(code))
}
