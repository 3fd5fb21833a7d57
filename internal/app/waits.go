package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// waits are the callers that wait here for a person. The watch ends the waiting of those
// who are turned away by now, since none of them would be let through after a yes.
type waits struct {
	mu sync.Mutex
	of map[string]*waiting // by [runtime.Principal.Owner]
}

// waiting is all that one principal waits for.
type waiting struct {
	caller runtime.Caller
	ends   map[*context.CancelCauseFunc]struct{}
}

// while waits for a person in the caller's name. The error is that of identification once
// that turns the caller away.
func (w *waits) while(ctx context.Context, caller runtime.Caller, who *runtime.Principal, wait func(ctx context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer w.enter(caller, who.Owner(), &end)()
	err := wait(ctx)
	if away := (*runtime.Error)(nil); err != nil && errors.As(context.Cause(ctx), &away) { // the watch ended it
		why := *away
		why.ApprovalID = runtime.AsError(err).ApprovalID
		return &why
	}
	return err
}

func (w *waits) enter(caller runtime.Caller, owner string, end *context.CancelCauseFunc) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[string]*waiting{}
	}
	if w.of[owner] == nil {
		w.of[owner] = &waiting{caller, map[*context.CancelCauseFunc]struct{}{}}
	}
	w.of[owner].ends[end] = struct{}{}
	return func() { w.leave(owner, end) }
}

func (w *waits) leave(owner string, end *context.CancelCauseFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of[owner].ends, end)
	if len(w.of[owner].ends) == 0 {
		delete(w.of, owner)
	}
}

// look ends what those wait for who are turned away now. It costs one identification for
// each principal that waits.
func (w *waits) look(ctx context.Context, identify func(context.Context, runtime.Caller) (runtime.Principal, error)) {
	for owner, caller := range w.callers() {
		_, err := identify(ctx, caller)
		if err == nil || !crowd.Stranger(runtime.AsError(err)) { // a store that is busy ends nothing
			continue
		}
		w.end(owner, runtime.AsError(err))
	}
}

func (w *waits) callers() map[string]runtime.Caller {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make(map[string]runtime.Caller, len(w.of))
	for owner, one := range w.of {
		all[owner] = one.caller
	}
	return all
}

func (w *waits) end(owner string, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one := w.of[owner]; one != nil { // else it was decided meanwhile
		for end := range one.ends {
			(*end)(why)
		}
	}
}

// waitAs waits for a person in the caller's name. Of a tenant that is removed meanwhile the
// approval goes with the token, and which of the two is noticed first is left to chance:
// the caller hears of the token.
func (a *App) waitAs(ctx context.Context, caller runtime.Caller, who *runtime.Principal, wait func(ctx context.Context) error) error {
	err := a.waits.while(ctx, caller, who, wait)
	if who.Tenant == runtime.DefaultTenant || !errors.Is(err, approval.ErrUnknown) {
		return err
	}
	if _, away := a.identity.Anew(context.WithoutCancel(ctx), caller); away != nil && crowd.Stranger(runtime.AsError(away)) {
		return away
	}
	return err
}

// attended is the desk for the pipeline: the watch looks after those who wait at it.
type attended struct {
	*approval.Desk
	a *App
}

// Await implements [runtime.Approver].
func (d attended) Await(ctx context.Context, call *runtime.Call, verdict runtime.Verdict) (ticket runtime.Ticket, err error) {
	defer d.a.looksItself()()
	err = d.a.waitAs(ctx, call.Request.Caller, call.Principal, func(ctx context.Context) (err error) {
		ticket, err = d.Desk.Await(ctx, call, verdict)
		return err
	})
	return ticket, err
}

// decided is an approval once it is no longer pending.
func (a *App) decided(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string) (p approval.Approval, err error) {
	defer a.looksItself()()
	err = a.waitAs(ctx, caller, &who, func(ctx context.Context) (err error) {
		p, err = a.approvals.Wait(ctx, who, id)
		return err
	})
	return p, err
}

// looksItself is the look of the watch for a short command, which has no watch, while it
// waits: until stop is called.
func (a *App) looksItself() (stop func()) {
	if a.o.Slot != "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				a.identity.Forget()
				a.waits.look(ctx, a.identity.Identify)
			}
		}
	})
	return func() { cancel(); done.Wait() }
}
