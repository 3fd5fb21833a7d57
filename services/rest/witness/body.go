package witness

import (
	"bytes"
	"io"
)

// queue holds bytes that came and did not leave yet.
type queue struct {
	bytes  []byte
	masked bool
	skip   bool // what leaves is another body
}

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
	p.q.bytes = append(p.q.bytes, b[:n]...)
	return n, err
}

// Close implements [io.Closer].
func (p *passing) Close() error {
	if c, ok := p.src.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
