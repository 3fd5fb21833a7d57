package approval

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Yes is a person's yes.
type Yes struct {
	As   string         // the name of a person who has a PIN; "": the operator
	PIN  runtime.Secret // shows that it is that person; empty: not shown
	Full bool           // they were shown the full text
	For  time.Duration  // allows the like of it for so long; 0: this one, once
	Run  bool           // allows the like of it to the rest of the same kimbap run
	// Always says that the decider will add a policy rule as well; refused where
	// one person cannot decide that.
	Always bool
}

// Accept lets the request be executed once and returns the approval as it is
// after that: still pending where the rule wants more people. Only an operator
// may; of two deciders one wins and the other's error says who. What nobody could
// use, since its requester has ended, is refused unless the yes is Always. What [Desk.Show]
// cannot show in full is refused with [ErrNotShown] unless the yes is Full.
func (d *Desk) Accept(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string, yes Yes) (Approval, error) {
	a, err := d.decidable(ctx, by, tenant, id)
	if err == nil && !yes.Always {
		err = d.usable(ctx, &a)
	}
	if err != nil {
		return bare(a), err
	}
	f, err := d.open(ctx, &a)
	if err == nil && f.former {
		err = heldBefore(&a)
	}
	if err != nil {
		return bare(a), err
	}
	mask, err := d.mask(ctx, tenant)
	if err != nil {
		return bare(a), err
	}
	if v := render(&a, f, false, mask); !yes.Full && !v.Complete {
		return bare(a), notShown(&v)
	}
	if err := widens(f, yes); err != nil {
		return bare(a), err
	}
	v, names, err := d.decider(ctx, by, tenant, yes.As, yes.PIN)
	if err == nil {
		err = d.mayAccept(ctx, f, &by, v, names)
	}
	if err != nil {
		return bare(a), err
	}
	v.State = Approved
	if f.Terms.Count > 1 {
		return d.vote(ctx, &a, f.Terms.Count, v)
	}
	now, err := d.approve(ctx, &a, v)
	if err == nil {
		err = d.widen(ctx, &a, f, v, yes)
	}
	return now, err
}

// approve seals the yes and makes the move.
func (d *Desk) approve(ctx context.Context, a *Approval, v decision) (Approval, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return bare(*a), err
	}
	proof, err := d.o.Sealer.SealFor(ctx, a.Tenant, purposeDecision, plain, bind(a))
	if err != nil {
		return bare(*a), err
	}
	return d.decide(ctx, a, Approved, Change{At: v.At, By: v.By, Presence: v.Presence, Proof: proof})
}

// Reject refuses the request for good. The note is shown to the requester;
// an edited approval can be rejected too.
func (d *Desk) Reject(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id, note string) (Approval, error) {
	a, err := d.decidable(ctx, by, tenant, id)
	if err != nil {
		return bare(a), err
	}
	return d.decide(ctx, &a, Rejected, Change{At: d.now(), By: by.ID, Presence: presenceNone, Note: note})
}

// Decidable refuses what [Desk.Accept] refuses whatever is said with the yes: nobody need be
// asked for more.
func (d *Desk) Decidable(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) error {
	_, err := d.decidable(ctx, by, tenant, id)
	return err
}

// decidable returns the approval if the principal may decide it now.
func (d *Desk) decidable(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) (Approval, error) {
	a, err := d.forOperator(ctx, by, tenant, id)
	switch {
	case err != nil:
		return a, err
	case by.TokenID != "" && a.Principal == by.ID:
		return a, &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonOwnRequest, ApprovalID: id,
			Msg: "a token decides nothing that it asked for itself", Hint: "another operator decides",
		}
	case a.State == Pending && d.past(&a):
		if _, err := d.expire(ctx, &a); err != nil {
			return a, err
		}
		return a, d.over(&a)
	case a.State == Expired || a.State == Pending && d.expired(&a):
		return a, d.over(&a)
	case a.State != Pending:
		return a, decidedAlready(&a)
	}
	return a, nil
}

// usable refuses a yes that nobody could use any more. A no, and a rule for those
// who come later, have their use all the same.
func (d *Desk) usable(ctx context.Context, a *Approval) error {
	if d.o.Ended == nil {
		return nil
	}
	ended, err := d.o.Ended(ctx, a.Tenant, a.Principal)
	if err == nil && ended {
		err = askerEnded(a)
	}
	return err
}

// decide makes the one move that counts; a loser is told who won.
func (d *Desk) decide(ctx context.Context, a *Approval, to State, change Change) (Approval, error) {
	moved, err := d.move(ctx, a.Tenant, a.ID, Pending, to, change)
	if err != nil {
		return bare(*a), err
	}
	now, found, err := d.o.Store.Glance(ctx, a.Tenant, a.ID)
	switch {
	case err != nil && !moved:
		return bare(*a), err
	case err != nil: // decided, but not readable just now
		now = *a
		now.State, now.Decided, now.By, now.Presence, now.Note = to, change.At, change.By, change.Presence, change.Note
		return bare(now), nil
	case !found:
		return bare(*a), unknownID(a.ID)
	case !moved:
		return now, decidedAlready(&now)
	}
	return now, nil
}

// operates reports whether the principal decides for the tenant: the owner's
// operator, in the default tenant, does for all, any other for its own.
func operates(by *runtime.Principal, tenant runtime.Tenant) bool {
	return by.Kind == runtime.KindOperator && by.ID != "" && (by.Tenant == runtime.DefaultTenant || by.Tenant == tenant)
}

// forOperator returns one approval to somebody who may decide it.
func (d *Desk) forOperator(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, id string) (Approval, error) {
	if by.Kind != runtime.KindOperator {
		return Approval{}, notOperator()
	}
	if !operates(&by, tenant) {
		return Approval{}, unknownID(id)
	}
	a, found, err := d.o.Store.Approval(ctx, tenant, id)
	if err == nil && !found {
		err = unknownID(id)
	}
	return a, err
}
