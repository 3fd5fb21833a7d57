package approval

import (
	"bytes"
	"cmp"
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
)

// collect gives the yes of one approval to the request that was held under it, and to no
// other: the rules may not ask any more, or ask otherwise, but what is collected is done once,
// and nobody is asked anew for it.
func (d *Desk) collect(ctx context.Context, call *runtime.Call, verdict runtime.Verdict) (ticket runtime.Ticket, err error) {
	a, found, err := d.o.Store.Approval(ctx, call.Principal.Tenant, call.Request.Approval)
	switch {
	case err != nil:
		return ticket, err
	case !found || a.Principal != call.Principal.ID:
		return ticket, unknownID(call.Request.Approval)
	case a.State == Rejected:
		return ticket, rejected(&a)
	case a.State == Expired:
		return ticket, d.over(&a)
	case a.State == Pending:
		return ticket, pending(&a, d.now())
	case a.State != Approved:
		return ticket, Spent(&a)
	}
	if err := d.sameAsHeld(ctx, &a, call, verdict); err != nil {
		return ticket, err
	}
	ticket, used, err := d.use(ctx, &a)
	if err != nil || used {
		return ticket, err
	}
	if a, found, err = d.o.Store.Glance(ctx, a.Tenant, a.ID); err != nil { // somebody else was first
		return ticket, err
	}
	if !found {
		return ticket, unknownID(call.Request.Approval)
	}
	if err := d.Refusal(&a); err != nil {
		return ticket, err
	}
	return ticket, Spent(&a)
}

// sameAsHeld makes sure that the request is what a person has seen, and that the rules demand
// no more of that person now.
func (d *Desk) sameAsHeld(ctx context.Context, a *Approval, call *runtime.Call, verdict runtime.Verdict) error {
	held, err := d.open(ctx, a)
	if err != nil {
		return err
	}
	if held.former { // its digest is not that of the same request now
		return heldBefore(a)
	}
	if held.Replaced {
		if stored, err := d.stored(ctx, call); err != nil || !stored {
			return cmp.Or(err, otherThanHeld(a, "the key that goes in place of the requester's login is not stored any more"))
		}
	}
	demanded := dossier{Terms: verdict.Terms}
	if verdict.Effect == runtime.EffectAsk && !bytes.Equal(demanded.terms(), held.terms()) {
		return otherThanHeld(a, "policy now demands another one")
	}
	verdict.Terms = held.Terms
	_, digest, err := d.dossierOf(ctx, call, verdict)
	if err == nil && digest != a.Digest {
		err = otherThanHeld(a, "the action has changed since")
	}
	return err
}

func otherThanHeld(a *Approval, why string) error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonPolicyChanged, ApprovalID: a.ID,
		Msg: fmt.Sprintf("the approval %s was given, but %s", a.ID, why), Hint: "the same request, sent again, asks anew",
	}
}

// Spent is what is told of an approval that is being executed, or was.
func Spent(a *Approval) error {
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonExecutedAlready, ApprovalID: a.ID,
		Msg:  fmt.Sprintf("the approval %s was executed already (%s), and whoever collected it has the answer", a.ID, a.State),
		Hint: "the same request, sent again, asks anew",
	}
	switch a.State {
	case Unknown:
		e.Msg = fmt.Sprintf("the approval %s was executed already, and nobody knows how that ended", a.ID)
		e.Hint = "find out at the service whether it happened; the same request, sent again, asks anew"
	case Approved, Executing: // approved, when it was taken but a moment ago
		e.Reason = runtime.ReasonBeingExecuted
		e.Msg = fmt.Sprintf("the approval %s is being executed now, and whoever collects it gets the answer", a.ID)
		e.Hint = "wait for that answer there; the same request, sent again, asks anew and would be done twice"
	}
	return e
}
