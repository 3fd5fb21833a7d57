package waiting_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/waiting"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// desk is one at which nobody decides, or that lost the approval.
type desk struct {
	entered chan string // ids of approvals, as somebody begins to wait
	lost    chan struct{}
}

func (d desk) wait(ctx context.Context, id string) error {
	d.entered <- id
	select {
	case <-ctx.Done():
		return &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: id, Err: ctx.Err()}
	case <-d.lost:
		return fmt.Errorf("look: %w", approval.ErrUnknown)
	}
}

func (d desk) Await(ctx context.Context, call *runtime.Call, _ runtime.Verdict) (runtime.Ticket, error) {
	return runtime.Ticket{}, d.wait(ctx, call.Request.ID)
}

func (d desk) Wait(ctx context.Context, _ runtime.Principal, id string) (approval.Approval, error) {
	return approval.Approval{}, d.wait(ctx, id)
}

func (d desk) WaitAllowed(ctx context.Context, _ runtime.Principal, id string) (approval.Approval, bool, error) {
	return approval.Approval{}, false, d.wait(ctx, id)
}

func (d desk) Finish(context.Context, runtime.Ticket, error) error { return nil }

// tokens are the callers that are turned away, and why.
type tokens struct {
	mu        sync.Mutex
	away      map[string]error
	forgotten int
}

func (k *tokens) Identify(_ context.Context, caller runtime.Caller) (runtime.Principal, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return runtime.Principal{}, k.away[caller.Token.Reveal()]
}

func (k *tokens) Anew(ctx context.Context, caller runtime.Caller) (runtime.Principal, error) {
	return k.Identify(ctx, caller)
}

func (k *tokens) Forget() { k.mu.Lock(); defer k.mu.Unlock(); k.forgotten++ }

func (k *tokens) turn(token string, why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away[token] = why
}

var revoked = &runtime.Error{Code: runtime.CodeUnauthenticated, Stage: runtime.StageIdentify, Msg: "this token was revoked"}

// rig is a room in which callers wait.
type rig struct {
	*waiting.Room
	desk   desk
	tokens *tokens
	ended  chan error
}

func newRig(every time.Duration) *rig {
	r := &rig{desk: desk{make(chan string), make(chan struct{})}, tokens: &tokens{away: map[string]error{}}, ended: make(chan error)}
	r.Room = waiting.New(waiting.Options{Desk: r.desk, Identity: r.tokens, Every: every})
	return r
}

// waits has a caller wait, whose token is its name, and returns when it does.
func (r *rig) waits(ctx context.Context, name, id string, tenant runtime.Tenant) {
	go func() {
		who := &runtime.Principal{ID: name, Tenant: tenant}
		call := &runtime.Call{Principal: who, Request: &runtime.Request{ID: id, Caller: runtime.Caller{Token: runtime.NewSecret(name)}}}
		_, err := r.Await(ctx, call, runtime.Verdict{})
		r.ended <- err
	}()
	<-r.desk.entered
}

func TestWhoIsTurnedAwayWaitsNoLonger(t *testing.T) {
	r := newRig(0)
	ctx, cancel := context.WithCancel(t.Context())
	r.waits(ctx, "one", "a", "acme")
	r.waits(ctx, "one", "b", "acme")
	r.waits(ctx, "other", "c", "acme")
	r.tokens.turn("other", &runtime.Error{Code: runtime.CodeStorageBusy})
	r.Look(t.Context())
	if n := r.Waiting(); n != 3 {
		t.Fatalf("%d wait, when only the store was busy", n)
	}
	r.tokens.turn("one", revoked)
	r.Look(t.Context())
	ids := map[string]bool{}
	for range 2 {
		e := runtime.AsError(<-r.ended)
		if e.Code != runtime.CodeUnauthenticated || e.Msg != revoked.Msg {
			t.Errorf("ended with %v", e)
		}
		ids[e.ApprovalID] = true
	}
	if !ids["a"] || !ids["b"] || revoked.ApprovalID != "" {
		t.Errorf("approvals %v; the identity's own error has %q", ids, revoked.ApprovalID)
	}
	if n := r.Waiting(); n != 1 {
		t.Errorf("%d wait still", n)
	}
	cancel()
	if e := runtime.AsError(<-r.ended); e.Code != runtime.CodeApprovalPending || r.Waiting() != 0 {
		t.Errorf("who hangs up: %v, and %d wait", e, r.Waiting())
	}
}

// A short command has no watch.
func TestARoomThatNobodyLooksAfterLooksItself(t *testing.T) {
	r := newRig(time.Millisecond)
	r.waits(t.Context(), "one", "a", runtime.DefaultTenant)
	r.tokens.turn("one", revoked)
	if e := runtime.AsError(<-r.ended); e.Code != runtime.CodeUnauthenticated {
		t.Error(e)
	}
	r.tokens.mu.Lock()
	defer r.tokens.mu.Unlock()
	if r.tokens.forgotten == 0 {
		t.Error("it goes by what it remembers of tokens")
	}
}

// With a tenant goes its token and its approval; which is noticed first is left to chance.
func TestWhoseTenantIsRemovedHearsOfTheToken(t *testing.T) {
	for tenant, want := range map[runtime.Tenant]error{"acme": revoked, runtime.DefaultTenant: approval.ErrUnknown} {
		r := newRig(0)
		r.waits(t.Context(), "one", "a", tenant)
		r.tokens.turn("one", revoked)
		close(r.desk.lost)
		if err := <-r.ended; !errors.Is(err, want) {
			t.Errorf("%s: %v", tenant, err)
		}
	}
}
