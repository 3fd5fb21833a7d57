package server

import (
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// How many callers that cannot be identified are told why.
const (
	strangers       = 100 // in a burst
	strangersSecond = 10  // from then on
	retrySoon       = time.Second
)

// doorman counts callers that could not be identified. When there are too many,
// they are told to come later; who is known passes, so that nobody can lock
// others out by guessing.
type doorman struct {
	clock func() time.Time
	mu    sync.Mutex
	left  float64
	last  time.Time
}

// refuse returns what a caller is told whom nobody knows.
func (d *doorman) refuse(why error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock()
	if !d.last.IsZero() {
		d.left = min(strangers, d.left+now.Sub(d.last).Seconds()*strangersSecond)
	}
	d.last = now
	if d.left < 1 {
		return &runtime.Error{
			Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Msg: "too many requests could not be identified",
			Hint: "try again in a second", RetryAfter: retrySoon,
		}
	}
	d.left--
	return why
}
