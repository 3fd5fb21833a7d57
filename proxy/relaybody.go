package proxy

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// errEnded is what a body returns whose request is over.
var errEnded = errors.New("the request is over")

// inbound is the body of a request of the relay engine. Read may be called from
// a goroutine of the backend, and until finish has returned.
type inbound struct {
	r      *relay
	a      *relayed
	length int64 // -1: chunked
	waits  bool  // the client waits for 100 (Continue)

	over   atomic.Bool
	ended  atomic.Bool
	talks  atomic.Bool // the client may pause for as long as it likes
	mu     sync.Mutex  // reading
	body   *http1.Body
	failed bool
	broken bool      // it is malformed
	end    time.Time // when all of it must be there; zero: it may take as long as it moves
}

// by gives the body a time. Nothing reads from it yet.
func (b *inbound) by(end time.Time) { b.end = end }

// Read implements [io.Reader]. The first read of a body that the client holds
// back asks for it (RFC 9110 section 10.1.1).
func (b *inbound) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over.Load():
		return 0, errEnded
	case b.ended.Load():
		return 0, io.EOF // the watch may have the connection's reader now
	case b.waits:
		b.waits = false
		b.a.proceed()
	}
	b.arm()
	if b.over.Load() { // finish may have interrupted before arm moved the deadline
		return 0, errEnded
	}
	return b.read(p)
}

// talk is told that an answer has begun that is no refusal: the client may only listen from now
// on, as in calls that talk both ways. How long that may rest is for whoever answers.
func (b *inbound) talk() {
	if b == nil || b.ended.Load() || !b.end.IsZero() {
		return
	}
	b.talks.Store(true)
	_ = b.r.c.SetReadDeadline(time.Time{}) // of a read that is under way
}

// arm gives a read that may wait its time.
func (b *inbound) arm() {
	switch {
	case !b.body.Waits(), b.talks.Load():
		return
	case !b.end.IsZero():
		b.due(b.r.s.o.Limits.IdleTimeout)
		return
	}
	b.r.reads.Within(b.r.s.o.Limits.IdleTimeout, b.r.c.SetReadDeadline)
	if b.talks.Load() { // maybe since before the deadline was moved
		_ = b.r.c.SetReadDeadline(time.Time{})
	}
}

// due gives all reads from now on until d has passed, or the time of the body.
func (b *inbound) due(d time.Duration) {
	b.r.reads.Forget()
	limit := time.Now().Add(d)
	if !b.end.IsZero() && b.end.Before(limit) {
		limit = b.end
	}
	_ = b.r.c.SetReadDeadline(limit)
}

func (b *inbound) read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	} else if err != nil {
		b.failed = true
	}
	if errors.Is(err, http1.ErrChunks) {
		b.broken = true
		err = badChunks(err)
	}
	return n, err
}

// finish takes the body back from the backend and reads what is left of it, within
// bounds. It reports whether the next request begins behind it.
func (b *inbound) finish(a *relayed) bool {
	b.over.Store(true)
	if !b.mu.TryLock() { // a read is under way
		_ = b.r.c.SetReadDeadline(time.Unix(1, 0))
		b.mu.Lock()
		b.r.reads.Forget()
	}
	defer b.mu.Unlock()
	if b.talks.Load() {
		b.r.reads.Forget()
	}
	switch {
	case b.ended.Load():
		return true
	case b.failed || a.taken != nil || a.aborted || a.close:
		return false
	}
	return b.skip()
}

// goesOn reports whether more of the body may come, after finish.
func (b *inbound) goesOn() bool { return !b.ended.Load() && !b.broken }

// outlasts reports whether more of the body may be to come than finish reads, so that
// the connection ends with the answer. The client is told so (RFC 9110 section
// 10.1.1): else it would send its next request behind the body.
func (b *inbound) outlasts() bool {
	switch {
	case b == nil || b.ended.Load():
		return false
	case !b.mu.TryLock(): // the backend waits for more of it, and finish will interrupt it
		return true
	}
	defer b.mu.Unlock()
	return (b.length < 0 || b.length > skipBytes) && !b.body.Within(skipBytes)
}

// skipBytes is how much of a body that nobody wanted is read, so that the
// connection can go on.
const skipBytes = 256 << 10

// skip reads a body that nobody wanted. It has one time for all of it, which dripping
// does not move; that of a client that was told no is short: it may send the body all the
// same, or not.
func (b *inbound) skip() bool {
	if b.waits {
		b.due(lingering)
	} else {
		b.due(b.r.s.o.Limits.IdleTimeout)
	}
	buf := make([]byte, 4<<10)
	for skipped := 0; skipped < skipBytes; {
		n, err := b.read(buf)
		if err == io.EOF {
			return true
		}
		if skipped += n; err != nil {
			return false
		}
	}
	return false
}
