package approval_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// collecting is a refund that was held under an approval, sent again by whoever collects it.
func collecting(who runtime.Principal, amount, id string) *runtime.Call {
	call := refund(who, amount)
	call.Request.Approval = id
	return call
}

// A yes is collected by who asked, for what was asked, and by nobody else; what is refused
// leaves it as it is.
func TestAYesIsCollectedAsItWasAsked(t *testing.T) {
	elsewhere := agent("a")
	elsewhere.Tenant = "acme"
	redefined, unknown := collecting(agent("a"), "1", ""), errors.New("unknown id")
	redefined.Action.Digest = "d2"
	other := &runtime.Error{Reason: runtime.ReasonPolicyChanged}
	allowed := runtime.Verdict{Effect: runtime.EffectAllow, Rule: "new"}
	for name, c := range map[string]struct {
		call    *runtime.Call
		verdict runtime.Verdict
		want    error
	}{
		"as asked":            {collecting(agent("a"), "1", ""), asked(), nil},
		"nobody asks now":     {collecting(agent("a"), "1", ""), allowed, nil},
		"another principal":   {collecting(agent("b"), "1", ""), asked(), unknown},
		"another tenant":      {collecting(elsewhere, "1", ""), asked(), unknown},
		"other arguments":     {collecting(agent("a"), "2", ""), asked(), other},
		"others, nobody asks": {collecting(agent("a"), "2", ""), allowed, other},
		"redefined":           {redefined, asked(), other},
		"stricter terms":      {collecting(agent("a"), "1", ""), demanding(runtime.ApprovalTerms{Presence: "pin"}), other},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			id := d.ask(t, refund(agent("a"), "1"))
			d.accept(t, id)
			c.call.Request.Approval = id
			ticket, err := d.Await(t.Context(), c.call, c.verdict)
			state := approval.Approved
			switch {
			case c.want == nil:
				state = approval.Executing
				if err != nil || ticket.ID != id || ticket.By != me {
					t.Errorf("%+v %v", ticket, err)
				}
			case c.want == unknown:
				if !errors.Is(err, approval.ErrUnknown) {
					t.Errorf("a foreign id: %v", err)
				}
			default:
				wantReason(t, err, runtime.ReasonPolicyChanged)
			}
			if got := d.store.state(id); got != state || c.want != nil && ticket.ID != "" || d.store.count() != 1 {
				t.Errorf("%s, ticket %q, %d questions", got, ticket.ID, d.store.count())
			}
		})
	}
}

// What has no yes, or none any more, is not collected.
func TestWithoutAYesNothingIsCollected(t *testing.T) {
	d := newDesk(t)
	try := func(id string) error {
		_, err := d.Await(t.Context(), collecting(agent("a"), "1", id), asked())
		return err
	}
	id := d.ask(t, refund(agent("a"), "1"))
	wantCode(t, try(id), runtime.CodeApprovalPending)
	d.accept(t, id)
	if err := try(id); err != nil {
		t.Fatal(err)
	}
	wantReason(t, try(id), runtime.ReasonBeingExecuted)
	if err := d.Finish(t.Context(), runtime.Ticket{ID: id}, nil); err != nil {
		t.Fatal(err)
	}
	wantReason(t, try(id), runtime.ReasonExecutedAlready)

	late := d.ask(t, refund(agent("a"), "1"))
	d.accept(t, late)
	d.clock.turn(9 * time.Hour)
	wantCode(t, try(late), runtime.CodeApprovalExpired)
	wantCode(t, try(late), runtime.CodeApprovalExpired) // the state says so now

	no := d.ask(t, refund(agent("a"), "1"))
	if _, err := d.Reject(t.Context(), operator(me), runtime.DefaultTenant, no, "no"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, try(no), runtime.CodeApprovalRejected)
}

// between is a store in which something happens once a row was read whole, or was moved.
type between struct {
	*memory
	read, moved func()
}

func (b *between) Approval(ctx context.Context, tenant runtime.Tenant, id string) (approval.Approval, bool, error) {
	a, found, err := b.memory.Approval(ctx, tenant, id)
	if act := b.read; act != nil && found && a.State == approval.Approved {
		b.read = nil
		act()
	}
	return a, found, err
}

func (b *between) Move(ctx context.Context, tenant runtime.Tenant, id string, from, to approval.State, c approval.Change) (bool, error) {
	moved, err := b.memory.Move(ctx, tenant, id, from, to, c)
	if act := b.moved; act != nil && moved && to == approval.Executing {
		b.moved = nil
		act()
	}
	return moved, err
}

func deskBetween(t *testing.T) (desk, *between) {
	t.Helper()
	b := &between{memory: newMemory()}
	c := &clock{}
	ids := 0
	d, err := approval.New(approval.Options{
		Store: b, Sealer: sealer{}, Clock: c.now, Process: func() string { return "me" }, Alive: func(string) bool { return true },
		NewID: func() string { ids++; return "apr_" + string(rune('a'+ids)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return desk{Desk: d, store: b.memory, clock: c}, b
}

// G19: of two that have read the same yes one uses it, whoever is between them.
func TestAYesThatAnotherUsesMeanwhileIsNone(t *testing.T) {
	for name, collected := range map[string]bool{"sent again": false, "collected": true} {
		d, b := deskBetween(t)
		id := d.ask(t, refund(agent("a"), "1"))
		d.accept(t, id)
		b.read = func() {
			other := deskOver(t, b.memory, "other")
			if ticket, err := other.Await(t.Context(), refund(agent("a"), "1"), asked()); err != nil || ticket.ID != id {
				t.Fatalf("%+v %v", ticket, err)
			}
		}
		call := refund(agent("a"), "1")
		if collected {
			call.Request.Approval = id
		}
		ticket, err := d.Await(t.Context(), call, asked())
		if err == nil || ticket.ID != "" {
			t.Errorf("%s: used twice: %+v", name, ticket)
		}
		if got := runtime.CodeOf(err); collected && got != runtime.CodeInvalidInput || !collected && got != runtime.CodeApprovalPending {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// AP-008: a yes whose time is over by the time the store has taken its use is not used.
func TestAYesThatEndsWhileItIsTakenIsNotUsed(t *testing.T) {
	d, b := deskBetween(t)
	id := d.ask(t, refund(agent("a"), "1"))
	d.accept(t, id)
	b.moved = func() { d.clock.turn(9 * time.Hour) }
	ticket, err := d.Await(t.Context(), refund(agent("a"), "1"), asked())
	wantCode(t, err, runtime.CodeApprovalExpired)
	if got := d.store.state(id); ticket.ID != "" || got != approval.Failed {
		t.Errorf("ticket %q, %s", ticket.ID, got)
	}
}

// A time that another process has sealed is known from then on: a clock that lags behind it
// keeps nothing open.
func TestAClockThatLagsKeepsNothingOpen(t *testing.T) {
	store := newMemory()
	lagging, ahead := deskOver(t, store, "one"), deskOver(t, store, "two")
	id := lagging.askAs(t, refund(agent("a"), "1"), demanding(runtime.ApprovalTerms{Expires: time.Hour}))
	ahead.clock.turn(2 * time.Hour)
	other := ahead.ask(t, refund(agent("b"), "1"))
	if _, err := lagging.Show(t.Context(), operator(me), runtime.DefaultTenant, other, false); err != nil {
		t.Fatal(err)
	}
	_, err := lagging.Accept(t.Context(), operator(me), runtime.DefaultTenant, id, approval.Yes{})
	wantCode(t, err, runtime.CodeApprovalExpired)
}
