package http2

import (
	"errors"
	"io"

	"golang.org/x/net/http2"
)

// Sizes of the pieces that bodies are kept in until they are read, in bytes.
const (
	smallChunk = 512
	dataChunk  = firstFrame
)

// inbox holds what has come of a body and was not read. Its last piece may have room for
// more, which the reading goroutine fills without the lock.
type inbox struct {
	pieces [][]byte
	at     int // of the first piece, what was read
	filled int // bytes that wait
	taken  bool
}

func (b *inbox) empty() bool { return b.filled == 0 }

// reserve makes room for n bytes at the end. They are there after commit.
func (b *inbox) reserve(n int, s *Server) []byte {
	b.taken = true
	if k := len(b.pieces); k > 0 {
		if last := b.pieces[k-1]; cap(last)-len(last) >= n {
			return last[len(last) : len(last)+n]
		}
	}
	var piece []byte
	switch {
	case n > dataChunk/4:
		if room, ok := s.data.Get().(*[dataChunk]byte); ok {
			piece = room[:0]
		} else {
			piece = make([]byte, 0, dataChunk)
		}
	case len(b.pieces) > 0: // it goes on in small steps
		piece = make([]byte, 0, max(n, min(2*cap(b.pieces[len(b.pieces)-1]), dataChunk)))
	default:
		piece = make([]byte, 0, max(n, smallChunk))
	}
	b.pieces = append(b.pieces, piece)
	return piece[:n]
}

// commit says that n bytes of what was reserved are there.
func (b *inbox) commit(n int) {
	b.taken = false
	if k := len(b.pieces); k > 0 {
		b.pieces[k-1] = b.pieces[k-1][:len(b.pieces[k-1])+n]
		b.filled += n
	}
}

// read takes what has come.
func (b *inbox) read(p []byte, s *Server) (n int) {
	for n < len(p) && b.filled > 0 {
		m := copy(p[n:], b.pieces[0][b.at:])
		n, b.at, b.filled = n+m, b.at+m, b.filled-m
		if b.at < len(b.pieces[0]) {
			break
		}
		if b.taken && len(b.pieces) == 1 {
			break // more of it is being filled
		}
		b.recycle(b.pieces[0], s)
		b.pieces[0] = nil
		b.pieces = b.pieces[1:]
		b.at = 0
	}
	return n
}

// drop forgets all, and returns how much it was. The piece that is being filled stays, for
// what comes into it.
func (b *inbox) drop(s *Server) (n int64) {
	n = int64(b.filled)
	pieces, left := b.pieces, inbox{taken: b.taken}
	if k := len(pieces) - 1; k >= 0 && b.taken {
		left.pieces, left.at = pieces[k:], len(pieces[k])
		pieces = pieces[:k]
	}
	for _, piece := range pieces {
		b.recycle(piece, s)
	}
	*b = left
	return n
}

func (b *inbox) recycle(piece []byte, s *Server) {
	if cap(piece) != dataChunk {
		return
	}
	room := (*[dataChunk]byte)(piece[:dataChunk])
	clear(room[:len(piece)]) // bytes of one client never lie about in another's
	s.data.Put(room)
}

// takeData reads a frame of data (RFC 9113 section 6.1) straight into the body it is of.
func (c *conn) takeData(head http2.FrameHeader) error {
	left, pad := int(head.Length), 0
	if head.Flags.Has(http2.FlagDataPadded) {
		n, err := c.padding(left)
		if err != nil {
			return err
		}
		pad = n
		left -= 1 + pad
	}
	st, err := c.expect(head, left)
	var broken http2.ConnectionError
	switch {
	case errors.As(err, &broken):
		return err
	case st == nil: // of no stream, or too much for it
		if failed := c.discard(left + pad); failed != nil {
			return failed
		}
		c.repay(int64(head.Length))
		if err == nil && left == 0 {
			return c.nothing()
		}
		return err
	}
	if err := c.fill(st.space); err != nil {
		return err
	}
	if err := c.discard(pad); err != nil {
		return err
	}
	return c.received(st, head, left)
}

// padding reads how much of a frame is padding.
func (c *conn) padding(length int) (int, error) {
	if length == 0 {
		return 0, http2.ConnectionError(http2.ErrCodeFrameSize)
	}
	var n [1]byte
	if err := c.fill(n[:]); err != nil {
		return 0, err
	}
	if int(n[0]) >= length {
		return 0, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return int(n[0]), nil
}

// expect makes room for a frame of n bytes of data in the stream that takes them. There
// may be none, and then something may be wrong.
func (c *conn) expect(head http2.FrameHeader, n int) (*Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if head.StreamID == 0 {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	st, err := c.of(head.StreamID)
	if err != nil {
		return nil, err
	}
	if c.window -= int64(head.Length); c.window < 0 {
		return nil, http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	bad := func(code http2.ErrCode) error { return http2.StreamError{StreamID: head.StreamID, Code: code} }
	switch {
	case st == nil && c.underway(head.StreamID):
		return nil, nil
	case st == nil || st.ended:
		return nil, bad(http2.ErrCodeStreamClosed)
	case st.err != nil:
		return nil, nil
	}
	if st.window -= int64(head.Length); st.window < 0 {
		return nil, bad(http2.ErrCodeFlowControl)
	}
	if most := st.Head.Length; most >= 0 && st.got+int64(n) > most {
		return nil, bad(http2.ErrCodeProtocol)
	}
	st.space = nil
	if n > 0 {
		st.space = st.in.reserve(n, c.s)
	}
	return st, nil
}

// fill reads bytes that are to come at once, which have the idle time to move.
func (c *conn) fill(p []byte) error {
	for len(p) > 0 {
		if c.br.Buffered() == 0 {
			c.armed = true
			c.reads.Within(c.s.o.IdleTimeout, c.SetReadDeadline)
		}
		n, err := c.br.Read(p)
		if p = p[n:]; err != nil && len(p) > 0 {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// discard reads bytes that nobody wants.
func (c *conn) discard(n int) error {
	var room [256]byte
	for n > 0 {
		m := min(n, len(room))
		if err := c.fill(room[:m]); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// received gives a body the n bytes that were read into it.
func (c *conn) received(st *Stream, head http2.FrameHeader, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.err != nil { // it ended meanwhile, and nobody will read this
		c.owe(int64(head.Length))
		c.later()
		if n == 0 {
			return c.nothing()
		}
		return nil
	}
	if n > 0 {
		st.in.commit(n)
		st.got += int64(n)
		st.moved.Broadcast()
		st.forget()
	}
	if rest := int64(head.Length) - int64(n); rest > 0 {
		st.owe(rest)
	}
	if head.Flags.Has(http2.FlagDataEndStream) {
		return st.finishBody()
	}
	if n == 0 {
		return c.nothing()
	}
	return nil
}
