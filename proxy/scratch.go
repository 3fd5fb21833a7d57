package proxy

import "sync"

// scratches are the buffers for heads that all connections of a server share.
type scratches struct{ pool sync.Pool }

// scratchSize holds most heads, in bytes.
const scratchSize = 2 << 10

// leastRead is the room, in bytes, that is worth a read.
const leastRead = 512

func (s *scratches) take() []byte {
	if buf, ok := s.pool.Get().(*[scratchSize]byte); ok {
		return buf[:0]
	}
	return make([]byte, 0, scratchSize)
}

// give takes a buffer back, without what was in it: heads hold tokens. One that
// grew is left to the collector.
func (s *scratches) give(buf []byte) {
	if cap(buf) != scratchSize {
		return
	}
	buf = buf[:scratchSize]
	clear(buf)
	s.pool.Put((*[scratchSize]byte)(buf))
}
