package connector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// pause is for how long a provider that failed is left alone, and why. It is kept with the grant:
// the next request may be another process's, as that of each command is.
type pause struct {
	Until  time.Time `json:"until"`
	Times  int       `json:"times"`            // that it has failed, one after the other
	Status int       `json:"status,omitempty"` // that it answered; 0: it did not, or cannot be understood
	Code   string    `json:"code,omitempty"`   // of RFC 6749 section 5.2
}

// failure is a pause that this process has begun.
type failure struct {
	pause
	cause error
	of    time.Time // when the token was obtained that was to be renewed: of a later one nothing is known
}

// holds reports whether a provider is left alone at a moment. A pause cannot end later than the
// longest one that begins now: then the clock was set back since.
func (p pause) holds(now time.Time) bool {
	left := p.Until.Sub(now)
	return left > 0 && left <= longestWait+longestWait/5
}

// next is the pause after one, longer each time, or as long as the provider says, within bounds.
func (p pause) next(now time.Time, cause error) pause {
	long := min(firstPause<<min(max(p.Times, 0), 3), longestWait)
	next := pause{Times: p.Times + 1}
	var told *refusal
	if errors.As(cause, &told) {
		next.Status, next.Code = told.status, told.code
		if told.after > 0 {
			long = max(firstPause, min(told.after, longestWait))
		}
	}
	long += time.Duration(rand.Int64N(int64(long)/5 + 1)) // not all at once
	next.Until = now.Add(long).Round(0).UTC()             // by the wall, for other processes
	return next
}

// cause is what the provider answered, as far as it is kept.
func (p pause) cause() error {
	if p.Status == 0 || p.Code != "" && !isCode(p.Code) {
		return errors.New("the provider gave none when it was asked last")
	}
	return &refusal{status: p.Status, code: p.Code}
}

// failed has a provider left alone for a while, by all processes, and says so. Where that cannot be
// stored, this process knows it all the same.
func (c *Connector) failed(ctx context.Context, at place, g *Grant, stored runtime.Secret, cause error) error {
	now := c.o.Clock()
	c.mu.Lock()
	before := g.Paused
	if here := c.failing[at]; here.of.Equal(g.Obtained) && here.Times > before.Times {
		before = here.pause
	}
	f := failure{before.next(now, cause), cause, g.Obtained}
	c.failing[at] = f
	c.mu.Unlock()
	paused := *g
	paused.Paused = f.pause
	if value, err := paused.Seal(); err == nil {
		_ = c.o.Keeper.Replace(ctx, at.tenant, at.name, stored, value)
	}
	return unrenewed(at, f, now)
}

// refusedNow is why nothing is asked at this moment; nil: it is.
func (c *Connector) refusedNow(at place, g *Grant, now time.Time) error {
	if g.Over != "" || !g.renews() {
		return over(at.name, g)
	}
	c.mu.Lock()
	f := c.failing[at]
	c.mu.Unlock()
	switch {
	case f.of.Equal(g.Obtained) && f.holds(now):
		return unrenewed(at, f, now)
	case g.Paused.holds(now):
		return unrenewed(at, failure{pause: g.Paused, cause: g.Paused.cause()}, now)
	}
	return nil
}

// unrenewed is the error of a provider that is left alone.
func unrenewed(at place, f failure, now time.Time) error {
	return &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonOAuthRefreshFailed, Stage: runtime.StageCredential,
		Msg: "the OAuth provider gave no new access token for " + at.name, Hint: hint(f.cause, renewable(f.cause)),
		RetryAfter: f.Until.Sub(now), Err: fmt.Errorf("%w: %w", runtime.ErrNotSent, f.cause),
	}
}
