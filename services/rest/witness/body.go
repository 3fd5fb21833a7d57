package witness

import (
	"bytes"
	"io"
	"slices"
)

// queue holds bytes that came and did not leave yet.
type queue struct {
	bytes  []byte
	room   []byte // what bytes is kept in, unless a caller has set it
	masked bool
	skip   bool // what leaves is another body
}

// come takes bytes that came. A stream passes through one room: what is appended to a
// slice whose beginning goes on is moved to a new array each time, and a long stream
// would leave more of them behind than the collector takes away.
func (q *queue) come(p []byte) {
	if q.skip {
		return
	}
	if need := len(q.bytes) + len(p); need > cap(q.bytes) {
		if need > cap(q.room) {
			q.room = make([]byte, 0, max(2*need, 4<<10))
		}
		q.bytes = append(q.room[:0], q.bytes...)
	}
	q.bytes = append(q.bytes, p...)
}

// whole takes a body at once. It stays its caller's.
func (q *queue) whole(body []byte) { q.bytes, q.room = slices.Clip(body), nil }

// leave takes bytes that leave, and reports whether they are the ones that came.
func (q *queue) leave(p []byte, answer bool) bool {
	if q.skip {
		return true
	}
	if len(p) > len(q.bytes) {
		return false
	}
	same := bytes.Equal(p, q.bytes[:len(p)])
	if !same && (!answer || !masks(q.bytes[:len(p)], p)) {
		return false
	}
	q.masked = q.masked || !same
	q.bytes = q.bytes[len(p):]
	return true
}

// passing reads a body and keeps in a queue what came.
type passing struct {
	src io.Reader
	w   *Witness
	q   *queue
}

// Read implements [io.Reader].
func (p *passing) Read(b []byte) (int, error) {
	n, err := p.src.Read(b)
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.q.come(b[:n])
	return n, err
}

// halting is a body of which a Read that waits for the caller can be ended.
type halting interface{ Halt() }

// halted is one that passes, and still can.
type halted struct {
	*passing
	src halting
}

// Halt ends a Read under way.
func (h halted) Halt() { h.src.Halt() }

// Close implements [io.Closer].
func (p *passing) Close() error {
	if c, ok := p.src.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
