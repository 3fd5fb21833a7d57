package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
)

// Homes that share a store do not see each other's files. What they have to know of each
// other is a lease in the store: who still runs, and who renews a grant.

// How long a process of another home is taken to live, and a renewal to take, when nothing
// is heard of either.
const (
	lifeLease  = time.Minute
	lifeEvery  = 10 * time.Second
	lifeAgain  = time.Second // after one that failed
	grantLease = 45 * time.Second
	grantLook  = 100 * time.Millisecond
)

// life is the lease by which other homes know that this process lives.
type life struct {
	once sync.Once
	stop func(ctx context.Context) // nil: it holds nothing

	mu    sync.Mutex
	heard time.Time // when it was leased last, by a clock that goes on while the machine sleeps
}

func (l *life) end(ctx context.Context) {
	l.once.Do(func() {})
	if l.stop != nil {
		l.stop(ctx)
	}
}

// holder is the name of this process in what it holds. Where homes share a store it is
// leased there before anything is held under it, and as long as the process lives. One
// that slept, or could not lease it, does so now: else what it begins would be told as lost.
func (a *App) holder() string {
	name := a.self.Name()
	if a.shared == nil {
		return name
	}
	a.life.once.Do(func() { a.live(name) })
	a.life.mu.Lock()
	since := a.o.Clock().Round(0).Sub(a.life.heard)
	a.life.mu.Unlock()
	if a.life.stop != nil && (since < 0 || since > lifeEvery+lifeAgain) {
		a.sayAlive(context.Background(), name)
	}
	return name
}

// sayAlive leases the name of this process, and reports whether that could be done.
func (a *App) sayAlive(ctx context.Context, name string) bool {
	at := a.o.Clock().Round(0)
	if _, err := a.shared.Lease(ctx, name, name, lifeLease); err != nil {
		if ctx.Err() == nil {
			a.o.Log.Warn().Err(err).Msg("other homes are not told that this process lives")
		}
		return false
	}
	a.life.mu.Lock()
	defer a.life.mu.Unlock()
	a.life.heard = at
	return true
}

// live leases the name of this process, again and again, and sooner where that could not be
// done.
func (a *App) live(name string) {
	ctx, cancel := context.WithCancel(context.Background())
	next := map[bool]time.Duration{true: lifeEvery, false: lifeAgain}
	first := next[a.sayAlive(ctx, name)]
	var done sync.WaitGroup
	done.Go(func() {
		timer := time.NewTimer(first)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
				timer.Reset(next[a.sayAlive(ctx, name)])
			case <-ctx.Done():
				return
			}
		}
	})
	a.life.stop = func(ctx context.Context) {
		cancel()
		done.Wait()
		_ = a.shared.EndLease(ctx, name, name) // else it ends by itself
	}
}

// alive reports whether a process that holds something still runs. One of which that
// cannot be found out does.
func (a *App) alive(holder string) bool {
	if home.Alive(a.home.State(), holder) {
		return true
	}
	if a.shared == nil {
		return a.storeless != nil // nobody can say
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	leased, err := a.shared.Leased(ctx, holder)
	return leased || err != nil
}

// lockGrant keeps all others from renewing a grant, in this home and where it is shared.
func (a *App) lockGrant(ctx context.Context, tenant runtime.Tenant, name string) (unlock func(), err error) {
	here, err := a.home.LockGrant(ctx, tenant, name, grantLockWait)
	if err != nil || a.shared == nil {
		return here, err
	}
	lease, holder := fmt.Sprintf("grant %q %q", tenant, name), a.self.Name()
	if err := a.waitLease(ctx, lease, holder, grantLockWait); err != nil {
		here()
		return nil, err
	}
	return func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateEnds)
		defer cancel()
		_ = a.shared.EndLease(end, lease, holder) // else it ends by itself
		here()
	}, nil
}

// waitLease takes a lease, and waits for it so long.
func (a *App) waitLease(ctx context.Context, lease, holder string, wait time.Duration) error {
	look := time.NewTicker(grantLook)
	defer look.Stop()
	for end := time.Now().Add(wait); ; {
		mine, err := a.shared.Lease(ctx, lease, holder, grantLease)
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
