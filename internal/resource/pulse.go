package resource

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// A process may stand still for hours: its machine sleeps, its container is paused, somebody
// sent it SIGSTOP. What it remembers is then as old, and nobody tells it.
const (
	beatEvery = 250 * time.Millisecond
	stoodFor  = time.Second // without a beat
)

// Pulse tells that this process stood still to those who go on before somebody has looked for
// what was changed meanwhile. Of a zero Pulse, which nobody keeps, nobody waits for anything. It
// is safe for concurrent use.
type Pulse struct {
	beat   atomic.Pointer[time.Time] // the last one; nil: nobody keeps it
	late   atomic.Bool               // behind is there; set before a beat that comes later
	mu     sync.Mutex
	behind chan struct{} // closed by the first look after it stood still; nil: it did not
	stands int           // how often it stood still
}

// Keep keeps the pulse until ctx ends. Who looks says so by [Pulse.Looks] meanwhile.
func (p *Pulse) Keep(ctx context.Context) {
	p.feel(time.Now())
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.looked(p.feel(time.Now()))
			p.beat.Store(nil)
			return
		case <-tick.C:
			p.feel(time.Now())
		}
	}
}

// stood reports whether there was no beat for too long.
func stood(beat, now time.Time) bool { return system.Elapsed(beat, now) > stoodFor }

// feel is a beat. It returns how often the process stood still until now.
func (p *Pulse) feel(now time.Time) (stands int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if beat := p.beat.Load(); beat != nil && stood(*beat, now) {
		p.stands++
		if p.behind == nil {
			p.behind = make(chan struct{})
		}
		p.late.Store(true)
	}
	p.beat.Store(&now)
	return p.stands
}

// Current returns true when what this process remembers is no older than a look: at once, or,
// when it stood still, after the next look. False says that there was none for as long as most.
func (p *Pulse) Current(ctx context.Context, most time.Duration) bool {
	beat, now := p.beat.Load(), time.Now()
	if beat == nil || !p.late.Load() && !stood(*beat, now) {
		return true
	}
	p.feel(now)
	p.mu.Lock()
	behind := p.behind
	p.mu.Unlock()
	if behind == nil {
		return true
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-behind:
		return true
	case <-ctx.Done():
	case <-late.C:
	}
	return false
}

// Looks begins a look for what others changed. Call done when what was found is taken up: who
// waits goes on then. A look that the process stood still in is none for them, though it began
// after they came: they may have come, and it may have begun, before another stand-still.
func (p *Pulse) Looks() (done func()) {
	if p.beat.Load() == nil {
		return func() {}
	}
	stands := p.feel(time.Now())
	return func() {
		if p.beat.Load() != nil && p.feel(time.Now()) == stands {
			p.looked(stands)
		}
	}
}

// looked lets those go on who wait, unless it stood still since.
func (p *Pulse) looked(stands int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind != nil && stands == p.stands {
		close(p.behind)
		p.behind = nil
		p.late.Store(false)
	}
}
