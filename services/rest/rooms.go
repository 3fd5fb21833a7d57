package rest

import (
	"sync"
	"sync/atomic"
)

// rooms lends buffers for the bodies of large answers, so many at a time; more
// answers do without. The larger a buffer is, the fewer times do reader and writer
// wait for each other: each wait puts a processor to sleep, which costs more than
// what 64 KiB need to be decrypted.
type rooms struct {
	body, ahead int   // bytes of one room
	most        int64 // at a time
	lent        atomic.Int64
	free        sync.Pool // of *room
}

// room is what one large answer has for itself.
type room struct {
	of    *rooms
	body  []byte // for what is passed on
	ahead []byte // for what is read ahead of it, encrypted; nil until it is needed
}

// The kinds of rooms: for a body that takes more than one common buffer, and for one
// that is worth a megabyte of memory.
const (
	largeLent  = 256
	largeSize  = 64 << 10 // of both buffers, bytes
	bulkyLent  = 16
	bulkySize  = 512 << 10
	bulkyAhead = 512 << 10
	bulkyBody  = 1 << 20 // bytes of a body that gets one
)

// take lends a room, nil when there are none left.
func (r *rooms) take() *room {
	if r.lent.Add(1) > r.most {
		r.lent.Add(-1)
		return nil
	}
	if have, ok := r.free.Get().(*room); ok {
		return have
	}
	return &room{of: r, body: make([]byte, r.body)}
}

// readAhead is the buffer for what is encrypted.
func (r *room) readAhead() []byte {
	if r.ahead == nil {
		r.ahead = make([]byte, r.of.ahead)
	}
	return r.ahead
}

// back takes a room back, without what was in it: bytes of one exchange never lie
// about in another's.
func (r *room) back() {
	clear(r.body) // what was read ahead is encrypted
	r.of.free.Put(r)
	r.of.lent.Add(-1)
}

// roomFor lends a room for a body of n bytes, -1 for one that is as long as its
// connection; nil when the body needs none.
func (b *Backend) roomFor(n int64) *room {
	if n >= bulkyBody {
		if r := b.bulky.take(); r != nil {
			return r
		}
	}
	if n < 0 || n > bufferSize {
		return b.large.take()
	}
	return nil
}
