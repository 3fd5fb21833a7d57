package server

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Large is the length from which an answer has to have a place in memory, in bytes. It is
// there whole, a few times over while it is decoded and written, for as long as its caller
// takes to read it.
const Large = 1 << 20

// Bounds of large answers, of at most 64 MiB each. One took up to 300 MB when it was
// measured, and 64 at once 6 GB.
const (
	largeAll     = 8           // at once
	largeEach    = 4           // of one principal
	largeQueue   = 64          // of one principal that wait; over that nothing more of it is sent
	largePatient = time.Minute // of one that waits, with its upstream held back

	// Of one that comes: 64 MiB at 64 KiB in a second, and some. Its upstream may be its
	// caller's friend, and send a byte now and then.
	largeLasts = 20 * time.Minute
)

// large counts large answers. What finds no room waits, first come first served but for
// those whose principal has its share: it was done, and refusing it would lose its answer.
type large struct {
	mu      sync.Mutex
	all     int
	by      map[string]int // by principal
	waiting []*allowance
	patient time.Duration
	clock   func() time.Time
}

// allowance is what one request may take of it. It is used by one goroutine.
type allowance struct {
	of    *large
	owner string
	has   bool
	since time.Time     // when it has it
	in    chan struct{} // closed when it has what it waits for
}

// allow begins a request. It is refused, before it is sent, while too many answers of its
// principal wait already.
func (l *large) allow(who runtime.Principal) (*allowance, error) {
	a := &allowance{of: l, owner: who.Owner(), in: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := 0
	for _, other := range l.waiting {
		if other.owner == a.owner {
			waiting++
		}
	}
	if waiting >= largeQueue {
		return nil, &Undone{&runtime.Error{
			Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Msg: "too many of this caller's answers wait for room in memory",
			Hint: "read answers first, or ask for less at once", RetryAfter: retrySoon,
		}}
	}
	return a, nil
}

// take waits for room for a large answer. It is called again for each piece that comes, and
// fails once they come for too long.
func (a *allowance) take(ctx context.Context) error {
	if a.has {
		return a.late()
	}
	a.of.mu.Lock()
	a.of.waiting = append(a.of.waiting, a)
	a.of.serve()
	a.of.mu.Unlock()
	end := time.NewTimer(a.of.patient)
	defer end.Stop()
	select {
	case <-a.in:
	case <-ctx.Done():
	case <-end.C:
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if a.has {
		return nil
	}
	a.of.waiting = slices.DeleteFunc(a.of.waiting, func(other *allowance) bool { return other == a })
	if ctx.Err() != nil {
		return hasLeft(ctx, "to have room in memory")
	}
	return &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge, Stage: runtime.StageExecute,
		Msg:  fmt.Sprintf("it was done, and its answer is over %d MiB, of which there are as many as there may be at once", Large>>20),
		Hint: "do not send it again for that; ask for less at once, and read answers as they come",
	}
}

// holds takes room where what is there is large and has none: it was made of less.
func (a *allowance) holds(ctx context.Context, size int) error {
	if size <= Large || a.has {
		return nil
	}
	return a.take(ctx)
}

// late is an error once an answer has had its place for too long.
func (a *allowance) late() error {
	if a.of.clock().Sub(a.since) <= largeLasts {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeTimeout, Stage: runtime.StageExecute,
		Msg:  fmt.Sprintf("it was done, and its answer is over %d MiB and took longer than %s to come", Large>>20, runtime.Span(largeLasts)),
		Hint: "do not send it again for that; ask for less at once",
	}
}

// give ends a request.
func (a *allowance) give() {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if !a.has {
		return
	}
	a.has = false
	a.of.all--
	if a.of.by[a.owner]--; a.of.by[a.owner] == 0 {
		delete(a.of.by, a.owner)
	}
	a.of.serve()
}

// serve lets in who waits, as far as there is room. The lock is held.
func (l *large) serve() {
	l.waiting = slices.DeleteFunc(l.waiting, func(a *allowance) bool {
		if l.all >= largeAll || l.by[a.owner] >= largeEach {
			return false
		}
		l.all++
		l.by[a.owner]++
		a.has, a.since = true, l.clock()
		close(a.in)
		return true
	})
}
