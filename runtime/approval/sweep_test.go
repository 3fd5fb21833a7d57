package approval_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// lasting is a vault in which opening takes its time, by the desk's clock.
type lasting struct {
	bolted
	clock *clock
}

func (l *lasting) OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error) {
	l.clock.turn(2 * time.Second)
	return l.bolted.OpenFor(ctx, tenant, purpose, sealed, aad)
}

// Who lists approvals waits about a second for what others left there, and no longer; all
// of it goes sooner or later.
func TestASweepTakesAboutASecond(t *testing.T) {
	d := newDesk(t)
	vault := &lasting{clock: d.clock}
	var err error
	d.Desk, err = approval.New(approval.Options{
		Store: d.store, Sealer: vault, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]string, 5)
	for n := range ids {
		ids[n] = d.ask(t, refund(agent("a"), fmt.Sprint(n)))
	}
	vault.shut = true
	for _, id := range ids {
		if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, ""); err != nil {
			t.Fatal(err)
		}
	}
	vault.shut = false
	for want := len(ids) - 1; want >= 0; want-- { // one goes in any time
		if _, err := d.Sweep(t.Context(), runtime.DefaultTenant); err != nil {
			t.Fatal(err)
		}
		left := 0
		for _, id := range ids {
			if d.held(t, id) {
				left++
			}
		}
		if left != want {
			t.Errorf("%d are left, want %d", left, want)
		}
	}
}

// seen is a store that says when it was looked at.
type seen struct {
	*memory
	looks chan struct{}
}

func (s *seen) Glance(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	a, found, err := s.memory.Glance(ctx, tenant, id)
	s.looks <- struct{}{}
	return a, found, err
}

// Who waits for a decision hears of it before the request is put away.
func TestWhoWaitsHearsBeforeTheRequestIsPutAway(t *testing.T) {
	d, vault := newDesk(t), slow{opens: make(chan struct{}, 100), may: make(chan struct{})}
	var err error
	store := &seen{memory: d.store, looks: make(chan struct{}, 100)}
	d.Desk, err = approval.New(approval.Options{
		Store: store, Sealer: vault, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Alive: func(string) bool { return true }, Poll: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	who := agent("a")
	id := d.ask(t, refund(who, "1"))
	for len(store.looks) > 0 {
		<-store.looks
	}
	heard, rejected := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := d.Wait(t.Context(), who, id)
		heard <- err
	}()
	<-store.looks // it was not decided yet
	go func() {
		_, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, id, "no")
		rejected <- err
	}()
	<-vault.opens
	select {
	case err := <-heard:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody told who waits")
	}
	close(vault.may)
	if err := <-rejected; err != nil {
		t.Error(err)
	}
}

// left is a store whose caller goes away while it is read.
type left struct {
	*memory
	leave context.CancelFunc
}

func (l *left) Glance(ctx context.Context, _ runtime.Tenant, _ string) (approval.Approval, bool, error) {
	l.leave()
	return approval.Approval{}, false, ctx.Err()
}

// Who goes away at the very moment that the store is read is told which approval waits, as at
// any other.
func TestWhoLeavesWhileTheStoreIsReadIsToldTheApproval(t *testing.T) {
	d := newDesk(t)
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	d.Desk, err = approval.New(approval.Options{
		Store: &left{d.store, cancel}, Sealer: sealer{}, Clock: d.clock.now, Process: func() string { return "me" }, NewID: func() string { return runtime.NewID("apr", time.Now()) },
		Alive: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	call := refund(agent("a"), "1")
	call.Request.Hold = time.Minute
	_, err = d.Await(ctx, call, asked())
	if e := runtime.AsError(err); e.Code != runtime.CodeCanceled || e.ApprovalID == "" || !strings.Contains(e.Msg, "while a person was asked") {
		t.Errorf("%+v", e)
	}
	_, err = d.Wait(ctx, agent("a"), "apr_asked")
	if e := runtime.AsError(err); e.Code != runtime.CodeCanceled || e.ApprovalID != "apr_asked" {
		t.Errorf("who waits for what was asked before: %+v", e)
	}
}
