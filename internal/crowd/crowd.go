// Package crowd is the trail of the pipeline with bounds before it: of what anybody can have
// recorded without end and without a token, so much stands there by itself, and the rest is
// counted and told of in one record.
//
// It refuses to leave out anything else: a request that was let in, and a refusal of a
// caller that is known, goes to the ledger as it came.
//
// Start reading at [Trail.Outcome].
package crowd

import (
	"strconv"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// Callers that nobody knows can make records without end and without a token, and
// whatever looks whether a port is open makes one each time without asking for
// anything. While a required sink keeps the trail from taking requests, nobody is asked who
// he is, and the ledger has every refusal. Of each kind crowdRecords stand in the trail by themselves in any
// crowdWindow; those beyond are counted, and one event tells how many.
const (
	crowdRecords = 50
	crowdWindow  = time.Minute
)

// Trail is the trail of the pipeline. It is safe for concurrent use.
type Trail struct {
	*audit.Log
	clock                      func() time.Time
	strangers, knocks, unheard crowd
}

// New puts bounds before a trail.
func New(trail *audit.Log, clock func() time.Time) *Trail {
	return &Trail{
		Log: trail, clock: clock,
		strangers: crowd{event: "callers.refused", count: "refused", label: "code", as: string(runtime.CodeUnauthenticated)},
		knocks:    crowd{event: "tunnels.unopened", count: "tunnels", label: "reason", as: string(runtime.ReasonTunnelUnopened)},
		unheard:   crowd{event: "requests.refused", count: "refused", label: "code", as: string(runtime.CodeAuditUnavailable)},
	}
}

var _ runtime.Trail = (*Trail)(nil)

// Outcome implements [runtime.Trail].
func (c *Trail) Outcome(r *runtime.Record) {
	if of := c.of(r); of != nil && of.over(c.clock()) {
		return
	}
	c.Log.Outcome(r)
}

// of is the crowd that a record is one of, nil for one that always stands by itself.
func (c *Trail) of(r *runtime.Record) *crowd {
	switch {
	case r.Sequence != 0 || r.Err == nil:
		return nil
	case Stranger(r.Err):
		return &c.strangers
	case r.Err.Reason == runtime.ReasonTunnelUnopened:
		return &c.knocks
	case r.Err.Code == runtime.CodeAuditUnavailable && r.Principal.ID == "":
		return &c.unheard
	}
	return nil
}

// Stranger reports whether nobody knew the caller.
func Stranger(why *runtime.Error) bool {
	return why.Code == runtime.CodeUnauthenticated || why.Code == runtime.CodeRateLimited && why.Stage == runtime.StageIdentify
}

// Tell has how many were left out recorded, a crowdWindow after the first of them, or now. It
// waits for nobody: see [audit.Log.Note].
func (c *Trail) Tell(now bool) {
	for _, of := range []*crowd{&c.strangers, &c.knocks, &c.unheard} {
		of.tell(c.Log, c.clock(), now)
	}
}

// crowd is one kind of refusals that somebody could make without end.
type crowd struct {
	event, count, label, as string // what tells of those left out: its kind and its fields

	mu    sync.Mutex
	began time.Time // of the window
	seen  int       // in it
	first time.Time // of those left out and not told yet
	left  int       // so many
}

// over counts one and reports whether it is one too many.
func (c *crowd) over(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Before(c.began) || now.Sub(c.began) >= crowdWindow {
		c.began, c.seen = now, 0
	}
	if c.seen++; c.seen <= crowdRecords {
		return false
	}
	if c.left++; c.left == 1 {
		c.first = now
	}
	return true
}

// tell notes in trail how many were left out, now or a crowdWindow after the first of them.
func (c *crowd) tell(trail *audit.Log, at time.Time, now bool) {
	c.mu.Lock()
	waits := at.Sub(c.first) // not since the window began: in a flood the next one begins before anybody looks
	if c.left == 0 || !now && waits >= 0 && waits < crowdWindow {
		c.mu.Unlock()
		return
	}
	left, first := c.left, c.first
	c.left = 0
	c.mu.Unlock()
	trail.Note(record.Event{Kind: c.event, Principal: "kimbap", Fields: map[string]string{
		c.count: strconv.Itoa(left), "since": first.UTC().Format(time.RFC3339), c.label: c.as,
	}})
}
