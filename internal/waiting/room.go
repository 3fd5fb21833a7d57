// Package waiting has the callers that wait for a person. Their waiting ends when they are turned
// away: with a token that was revoked nobody would be let through after a yes, nor need a person
// be asked any more.
//
// It decides nothing. Who a caller is says the identity, what a person said the desk; a store
// that is busy ends no wait.
//
// Start reading at [Room.Await] and [Room.Look].
package waiting

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// Identity says who callers are, as [identity.Identity] does.
type Identity interface {
	Identify(ctx context.Context, caller runtime.Caller) (runtime.Principal, error)
	// Anew is Identify by what the store says now.
	Anew(ctx context.Context, caller runtime.Caller) (runtime.Principal, error)
	// Forget drops what is remembered of tokens.
	Forget()
}

// Desk is where questions are decided, as [approval.Desk] is.
type Desk interface {
	runtime.Approver
	// Wait returns an approval once it is no longer pending.
	Wait(ctx context.Context, who runtime.Principal, id string) (approval.Approval, error)
	// WaitAllowed is Wait that ends as well once a yes to the like of it allows what it is about.
	WaitAllowed(ctx context.Context, who runtime.Principal, id string) (a approval.Approval, allowed bool, err error)
}

// Options are what a Room needs. Desk and Identity are required.
type Options struct {
	Desk     Desk
	Identity Identity
	// Every is how often the Room looks by itself while somebody waits; 0: it is told to, by
	// Look.
	Every time.Duration
}

// Room is the desk for a pipeline, with those who wait at it here. It is safe for concurrent use.
type Room struct {
	o  Options
	mu sync.Mutex
	of map[string]*waiting // by [runtime.Principal.Owner]
}

var _ runtime.Approver = (*Room)(nil)

// New makes a Room in which nobody waits.
func New(o Options) *Room { return &Room{o: o, of: map[string]*waiting{}} }

// waiting is all that one principal waits for.
type waiting struct {
	caller runtime.Caller
	ends   map[*context.CancelCauseFunc]struct{}
}

// Await implements [runtime.Approver].
func (r *Room) Await(ctx context.Context, call *runtime.Call, verdict runtime.Verdict) (ticket runtime.Ticket, err error) {
	err = r.while(ctx, call.Request.Caller, call.Principal, func(ctx context.Context) (err error) {
		ticket, err = r.o.Desk.Await(ctx, call, verdict)
		return err
	})
	return ticket, err
}

// Finish implements [runtime.Approver].
func (r *Room) Finish(ctx context.Context, ticket runtime.Ticket, err error) error {
	return r.o.Desk.Finish(ctx, ticket, err)
}

// Decided returns an approval once it is no longer pending.
func (r *Room) Decided(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string) (p approval.Approval, err error) {
	err = r.while(ctx, caller, &who, func(ctx context.Context) (err error) {
		p, err = r.o.Desk.Wait(ctx, who, id)
		return err
	})
	return p, err
}

// Allowed is Decided that ends as well once a yes to the like of it allows what it is about.
func (r *Room) Allowed(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string) (p approval.Approval, allowed bool, err error) {
	err = r.while(ctx, caller, &who, func(ctx context.Context) (err error) {
		p, allowed, err = r.o.Desk.WaitAllowed(ctx, who, id)
		return err
	})
	return p, allowed, err
}

// Look ends what those wait for who are turned away now. It costs one identification for
// each principal that waits.
func (r *Room) Look(ctx context.Context) {
	for owner, caller := range r.callers() {
		_, err := r.o.Identity.Identify(ctx, caller)
		if err == nil || !crowd.Stranger(runtime.AsError(err)) { // a store that is busy ends nothing
			continue
		}
		r.end(owner, runtime.AsError(err))
	}
}

// Waiting is how many wait here.
func (r *Room) Waiting() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.of {
		n += len(one.ends)
	}
	return n
}

// while waits for a person in the caller's name. Of a tenant that is removed meanwhile the
// approval goes with the token, and which of the two is noticed first is left to chance:
// the caller hears of the token.
func (r *Room) while(ctx context.Context, caller runtime.Caller, who *runtime.Principal, wait func(ctx context.Context) error) error {
	defer r.looks()()
	err := r.within(ctx, caller, who, wait)
	if who.Tenant == runtime.DefaultTenant || !errors.Is(err, approval.ErrUnknown) {
		return err
	}
	if _, away := r.o.Identity.Anew(context.WithoutCancel(ctx), caller); away != nil && crowd.Stranger(runtime.AsError(away)) {
		return away
	}
	return err
}

// within waits, and gives the error of identification once that turns the caller away.
func (r *Room) within(ctx context.Context, caller runtime.Caller, who *runtime.Principal, wait func(ctx context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer r.enter(caller, who.Owner(), &end)()
	err := wait(ctx)
	if away := (*runtime.Error)(nil); err != nil && errors.As(context.Cause(ctx), &away) { // a look ended it
		why := *away
		why.ApprovalID = runtime.AsError(err).ApprovalID
		return &why
	}
	return err
}

func (r *Room) enter(caller runtime.Caller, owner string, end *context.CancelCauseFunc) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of[owner] == nil {
		r.of[owner] = &waiting{caller, map[*context.CancelCauseFunc]struct{}{}}
	}
	r.of[owner].ends[end] = struct{}{}
	return func() { r.leave(owner, end) }
}

func (r *Room) leave(owner string, end *context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of[owner].ends, end)
	if len(r.of[owner].ends) == 0 {
		delete(r.of, owner)
	}
}

func (r *Room) callers() map[string]runtime.Caller {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string]runtime.Caller, len(r.of))
	for owner, one := range r.of {
		all[owner] = one.caller
	}
	return all
}

func (r *Room) end(owner string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.of[owner]; one != nil { // else it was decided meanwhile
		for end := range one.ends {
			(*end)(why)
		}
	}
}

// looks looks every so often, if nobody else does, until stop is called.
func (r *Room) looks() (stop func()) {
	if r.o.Every == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(r.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				r.o.Identity.Forget()
				r.Look(ctx)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}
