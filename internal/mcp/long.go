package mcp

import (
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Bounds of long messages over HTTP, in bytes. One is there whole from its first byte to
// its answer, several times over while it is read: as texts, decoded, and as arguments.
// Short ones are bounded by the connections of their callers.
const (
	longMessage  = 64 << 10
	longMessages = 64 << 20         // of all callers at once
	longOfOne    = longMessages / 4 // of one principal
	lookAgain    = 1 * time.Second  // when one that found no room is sent again
)

// long counts the messages over HTTP that are long.
type long struct {
	mu  sync.Mutex
	all int64
	by  map[string]int64 // by principal
}

// room is what one message has of it.
type room struct {
	of     *long
	owner  string
	length int64
}

type roomKey struct{}

// enter takes room for a message before any of it is read. One that does not say how long
// it is has that of the longest, until it is read.
func (l *long) enter(owner string, length int64) (*room, error) {
	if length < 0 {
		length = maxMessage
	}
	if length <= longMessage || length > maxMessage { // which is refused, and not kept
		length = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if length > 0 && (l.by[owner]+length > longOfOne || l.all+length > longMessages) {
		return nil, &runtime.Error{
			Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Msg: "too many long messages are not answered yet",
			Hint: "wait for answers first, or say less at once", RetryAfter: lookAgain,
		}
	}
	l.all += length
	l.by[owner] += length
	return &room{of: l, owner: owner, length: length}, nil
}

// shrink gives back what a message turned out not to need. It is used by one goroutine.
func (r *room) shrink(length int64) {
	if length <= longMessage {
		length = 0
	}
	less := max(r.length-length, 0)
	r.length -= less
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.all -= less
	if r.of.by[r.owner] -= less; r.of.by[r.owner] == 0 {
		delete(r.of.by, r.owner)
	}
}
