package proxy

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// body is the body of a request that net/http has read. It has a deadline that moves with
// it, up to an end that does not when it is read to be judged. Read may be called from a
// goroutine of the backend, and until finish has returned: net/http panics when two read,
// and reads what is left of a body itself.
type body struct {
	src     io.Reader
	guard   *guard // what its bytes come through
	control *http.ResponseController
	idle    time.Duration

	over   atomic.Bool
	talks  atomic.Bool // the client may pause for as long as it likes
	mu     sync.Mutex  // reading
	end    time.Time   // when all of it must be there; zero: it may take as long as it moves
	ended  bool
	failed bool
	cut    bool // it cannot be read to its end any more
}

var _ arriving = (*body)(nil)

// by gives the body a time. Nothing reads from it yet.
func (b *body) by(end time.Time) { b.end = end }

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over.Load():
		return 0, errEnded
	case b.ended:
		return 0, io.EOF // net/http reads on the side now
	}
	b.arm()
	if b.over.Load() { // finish may have interrupted before the deadline was moved
		return 0, errEnded
	}
	n, err := b.src.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	if b.ended = err == io.EOF; err != nil && !b.ended {
		b.failed = true
		if fault := b.guard.fault(); fault != nil {
			err = fault
		}
	}
	return n, err
}

// talk is told that an answer has begun that is no refusal: the client may only listen from now
// on, as in calls that talk both ways. How long that may rest is for whoever answers.
func (b *body) talk() {
	if b == nil || !b.end.IsZero() {
		return
	}
	b.talks.Store(true)
	_ = b.control.SetReadDeadline(time.Time{}) // of a read that is under way
}

// arm gives a read its time.
func (b *body) arm() {
	limit := time.Now().Add(b.idle)
	if !b.end.IsZero() && b.end.Before(limit) {
		limit = b.end
	}
	_ = b.control.SetReadDeadline(limit)
	if b.talks.Load() { // maybe since before the deadline was moved
		_ = b.control.SetReadDeadline(time.Time{})
	}
}

// finish takes the body back from the backend. A read that is under way is interrupted:
// net/http then ends the context of the connection, on which nothing can follow. Once the
// answer has begun the end must have been read before net/http looks for it: it would
// read on the side from there, and panic at the next request. Other bodies it skips itself.
func (b *body) finish(answered bool) {
	if b == nil || b.over.Swap(true) {
		return
	}
	if !b.mu.TryLock() {
		_ = b.control.SetReadDeadline(time.Unix(1, 0))
		b.mu.Lock()
		b.cut = true
	}
	defer b.mu.Unlock()
	if !answered || b.cut {
		return
	}
	if !b.ended && !b.failed && b.guard.arrived() {
		_, err := io.Copy(io.Discard, b.src)
		b.ended = err == nil
	}
	b.cut = !b.ended
}

// last reports whether nothing can follow on the connection, after finish.
func (b *body) last() bool { return b != nil && b.cut }

// outlasts reports whether more of the body is to come, or cannot be read, so that the
// connection ends with the answer: to wait for it would keep the answer from a client that
// waits for just that. The client is told so (RFC 9110 section 10.1.1): else it would send its next request behind the body.
func (b *body) outlasts() bool {
	switch {
	case b == nil:
		return false
	case !b.mu.TryLock(): // the backend waits for more of it
		return true
	}
	defer b.mu.Unlock()
	return b.cut || b.failed || !b.ended && !b.guard.arrived()
}

// blamed returns a context that ends with ctx. Its cause is what fault finds wrong with
// what the client sent, if anything: the end of ctx does not tell a request that cannot be
// read from a client that went away.
func blamed(ctx context.Context, fault func() error) (named context.Context, stop func()) {
	named, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	still := context.AfterFunc(ctx, func() { cancel(fault()) })
	return named, func() {
		still()
		cancel(nil)
	}
}
