// Package neighbours is what processes have to know of each other: who still lives of those
// that hold something, and who renews an OAuth grant. Over one home the home's files say it
// ([home.Self]). Homes that share a store do not see each other's files: there it is a lease in
// the store, by the store's clock.
//
// A process of which nothing can be found out is taken to live, so that nobody takes over what
// it may be doing still.
//
// Start reading at [Circle.Holder] and [Circle.Alive].
package neighbours

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

// How long a process of another home is taken to live, and a renewal to take, when nothing
// is heard of either; and how long another process is waited for at a grant.
const (
	lifeLease  = time.Minute
	lifeEvery  = 10 * time.Second
	lifeAgain  = time.Second // after one that failed
	grantLease = 45 * time.Second
	grantLook  = 100 * time.Millisecond
	grantWait  = 15 * time.Second
	endLimit   = 5 * time.Second // for a database that does not answer
)

// Leases are those of a store that homes share.
type Leases interface {
	// Lease gives a holder something for so long, or for longer if it has it already; false
	// when another has it.
	Lease(ctx context.Context, name, holder string, long time.Duration) (bool, error)
	// Leased reports whether somebody has it.
	Leased(ctx context.Context, name string) (bool, error)
	// EndLease gives it back.
	EndLease(ctx context.Context, name, holder string) error
}

// Options are what a Circle is of. Home, Self and Clock are required.
type Options struct {
	Home   home.Folder
	Self   *home.Self // this process; its owner ends it, after the Circle
	Shared Leases     // nil: there is one home
	// Unknown says, without Shared, that nobody can tell what other homes there are.
	Unknown bool
	Clock   func() time.Time
	// Unheard is told that the others could not be told that this process lives. It may be
	// called from any goroutine.
	Unheard func(error)
}

// Circle are the processes over a home and over those that share its store. It is safe for
// concurrent use.
type Circle struct {
	o    Options
	once sync.Once
	stop func(ctx context.Context) // nil: nothing is leased

	mu    sync.Mutex
	heard time.Time // when it was leased last, by a clock that goes on while the machine sleeps
}

// New makes a Circle. It does no IO.
func New(o Options) *Circle { return &Circle{o: o} }

// End gives up what others know this process by: nobody may hold anything under it any more.
func (c *Circle) End(ctx context.Context) {
	c.once.Do(func() {})
	if c.stop != nil {
		c.stop(ctx)
	}
}

// Holder is the name of this process in what it holds. Where homes share a store it is
// leased there before anything is held under it, and as long as the process lives. One
// that slept, or could not lease it, does so now: else what it begins would be told as lost.
func (c *Circle) Holder() string {
	name := c.o.Self.Name()
	if c.o.Shared == nil {
		return name
	}
	c.once.Do(func() { c.live(name) })
	c.mu.Lock()
	since := c.o.Clock().Round(0).Sub(c.heard)
	c.mu.Unlock()
	if c.stop != nil && (since < 0 || since > lifeEvery+lifeAgain) {
		c.sayAlive(context.Background(), name)
	}
	return name
}

// sayAlive leases the name of this process, and reports whether that could be done.
func (c *Circle) sayAlive(ctx context.Context, name string) bool {
	at := c.o.Clock().Round(0)
	if _, err := c.o.Shared.Lease(ctx, name, name, lifeLease); err != nil {
		if ctx.Err() == nil {
			c.o.Unheard(err)
		}
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = at
	return true
}

// live leases the name of this process, again and again, and sooner where that could not be
// done.
func (c *Circle) live(name string) {
	ctx, cancel := context.WithCancel(context.Background())
	next := map[bool]time.Duration{true: lifeEvery, false: lifeAgain}
	first := next[c.sayAlive(ctx, name)]
	var done sync.WaitGroup
	done.Go(func() {
		timer := time.NewTimer(first)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				timer.Reset(next[c.sayAlive(ctx, name)])
			case <-ctx.Done():
				return
			}
		}
	})
	c.stop = func(ctx context.Context) {
		cancel()
		done.Wait()
		_ = c.o.Shared.EndLease(ctx, name, name) // else it ends by itself
	}
}

// Alive reports whether a process that holds something still runs. One of which that
// cannot be found out does.
func (c *Circle) Alive(holder string) bool {
	if home.Alive(c.o.Home.State(), holder) {
		return true
	}
	if c.o.Shared == nil {
		return c.o.Unknown
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	leased, err := c.o.Shared.Leased(ctx, holder)
	return leased || err != nil
}

// LockGrant keeps all others from renewing a grant, until unlock is called. It waits for who
// does that now, 15 seconds at most.
func (c *Circle) LockGrant(ctx context.Context, tenant runtime.Tenant, name string) (unlock func(), err error) {
	here, err := c.o.Home.LockGrant(ctx, tenant, name, grantWait)
	if err != nil || c.o.Shared == nil {
		return here, err
	}
	lease, holder := fmt.Sprintf("grant %q %q", tenant, name), c.o.Self.Name()
	if err := c.waitLease(ctx, lease, holder); err != nil {
		here()
		return nil, err
	}
	return func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		_ = c.o.Shared.EndLease(end, lease, holder) // else it ends by itself
		here()
	}, nil
}

// waitLease takes the lease of a grant as soon as it is free.
func (c *Circle) waitLease(ctx context.Context, lease, holder string) error {
	look := time.NewTicker(grantLook)
	defer look.Stop()
	for end := time.Now().Add(grantWait); ; {
		mine, err := c.o.Shared.Lease(ctx, lease, holder, grantLease)
		if mine || err != nil {
			return err
		}
		if time.Now().After(end) {
			return &runtime.Error{
				Code: runtime.CodeStorageBusy, Msg: "a process of another home renews this grant", Hint: "wait until it is done, then try again", RetryAfter: time.Second,
			}
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
