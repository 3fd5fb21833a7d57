package approval

import (
	"cmp"
	"context"
	"errors"
	"hash/crc32"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Await implements [runtime.Approver]. An open approval of the same principal
// for the same request is used or waited for; only without one a new one is
// made. The request's OnPending is told the id and when the question expires. A
// request that was held under an approval uses that one.
func (d *Desk) Await(ctx context.Context, call *runtime.Call, verdict runtime.Verdict) (runtime.Ticket, error) {
	if call.Request.Approval != "" {
		return d.collect(ctx, call, verdict)
	}
	f, digest, err := d.dossierOf(ctx, call, verdict)
	if err != nil {
		return runtime.Ticket{}, err
	}
	for until := (time.Time{}); ; {
		if ticket, allowed, err := d.standing(ctx, f, digest); allowed || err != nil {
			return ticket, err
		}
		a, told, err := d.ask(ctx, f, digest, verdict.Terms.Expires)
		if err != nil {
			return runtime.Ticket{}, err
		}
		if until.IsZero() {
			hold, err := d.hold(ctx, call, told)
			if err != nil {
				return runtime.Ticket{}, err
			}
			until = time.Now().Add(hold)
		}
		if a.State == Pending && call.Request.OnPending != nil {
			call.Request.OnPending(a.ID, a.Expires)
		}
		ticket, used, err := d.watch(ctx, a, until, func() (runtime.Ticket, bool, error) { return d.standing(ctx, f, digest) })
		if used || err != nil {
			return ticket, err
		} // an identical request took the yes: this one needs its own
	}
}

// dossierOf takes down the call, with its digest.
func (d *Desk) dossierOf(ctx context.Context, call *runtime.Call, verdict runtime.Verdict) (*dossier, string, error) {
	f, err := d.newDossier(ctx, call, verdict)
	if err != nil {
		return nil, "", err
	}
	digest, err := f.digest()
	if err != nil {
		return nil, "", &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "an argument of this request cannot be shown to the person who must approve it",
			Hint: "send text as UTF-8, nested at most 256 deep", Err: err,
		}
	}
	return f, digest, nil
}

// hold is how long this request waits: with HoldAuto only when somebody can
// answer, unless the configuration says how long.
func (d *Desk) hold(ctx context.Context, call *runtime.Call, told <-chan struct{}) (time.Duration, error) {
	if call.Request.Hold >= 0 {
		return call.Request.Hold, nil
	}
	terms := d.terms.Load()
	if terms.Always {
		return terms.Hold, nil
	}
	watched, err := d.o.Store.Watched(ctx, call.Principal.Tenant, d.from(0))
	if err != nil || !watched && !awaitTold(ctx, told) {
		return 0, err
	}
	return terms.Hold, nil
}

// noLasts is how long a no answers the same request again: a program that tries
// once more does not get the person asked once more.
const noLasts = 10 * time.Minute

// ask returns the open approval of this request, making one when there is none;
// then people are told. A request that was rejected just now is not asked again.
// A question past its time is closed and counts as none; a yes past its time is
// told of once, by [Desk.use].
func (d *Desk) ask(ctx context.Context, f *dossier, digest string, expires time.Duration) (a Approval, told <-chan struct{}, err error) {
	closed := false
	defer func() {
		if closed { // after the lock is free: it may take long
			_ = d.releaseAll(ctx, f.Tenant)
		}
	}()
	twins := &d.asking[crc32.ChecksumIEEE([]byte(digest))%uint32(len(d.asking))]
	twins.Lock()
	defer twins.Unlock()
	a, found, err := d.openFor(ctx, f, digest)
	for err == nil && found && a.State == Pending && d.expired(&a) { // nobody answered, and nobody can
		if _, err = d.o.Store.Move(ctx, a.Tenant, a.ID, a.State, Expired, Change{At: d.now()}); err == nil {
			closed = true
			d.wake()
			a, found, err = d.openFor(ctx, f, digest)
		}
	}
	if err == nil && found && a.State == Rejected {
		err = rejectedBefore(&a)
	}
	if err != nil || found {
		return a, nil, err
	}
	swept, err := d.room(ctx, f)
	if closed = closed || swept; err != nil {
		return Approval{}, nil, err
	}
	f.Created = d.now().UTC().Truncate(time.Millisecond)
	f.Expires = f.Created.Add(cmp.Or(expires, d.terms.Load().Expires))
	a = f.row(d.o.NewID(), digest)
	if d.o.Tell != nil {
		a.Teller = d.o.Process()
	}
	if err := d.seal(ctx, &a, f); err != nil {
		return Approval{}, nil, err
	}
	switch open, found, err := d.o.Store.Ask(ctx, a, d.from(noLasts), d.o.PendingCap); {
	case errors.Is(err, ErrCrowded): // other processes were faster
		return Approval{}, nil, tooMany(d.o.PendingCap)
	case err != nil:
		return Approval{}, nil, err
	case found && open.State == Rejected:
		return Approval{}, nil, rejectedBefore(&open)
	case found: // another process was faster, and has told people
		return open, nil, nil
	}
	if d.o.Tell != nil {
		told = d.o.Tell(d.notice(ctx, &a, f))
	}
	return a, told, nil
}

// openFor returns what is open for this request, or was rejected just now.
func (d *Desk) openFor(ctx context.Context, f *dossier, digest string) (Approval, bool, error) {
	return d.o.Store.OpenApproval(ctx, f.Tenant, f.Principal, digest, d.from(noLasts))
}

// sweepPause keeps a caller over its cap from making the desk read the store
// over and over.
const sweepPause = 10 * time.Second

// room refuses one question too many. Questions whose time is over do not count: it
// reports whether it has closed such.
func (d *Desk) room(ctx context.Context, f *dossier) (closed bool, err error) {
	open, err := d.o.Store.PendingOf(ctx, f.Tenant, f.Principal)
	if err != nil || open < d.o.PendingCap {
		return false, err
	}
	if !d.sweeps(f.Tenant) {
		return false, tooMany(open)
	}
	n, err := d.closeOverdue(ctx, f.Tenant, f.Principal)
	if err != nil {
		return n > 0, err
	}
	if open, err = d.o.Store.PendingOf(ctx, f.Tenant, f.Principal); err != nil || open < d.o.PendingCap {
		return n > 0, err
	}
	return n > 0, tooMany(open)
}

// sweeps reports whether the time has come to sweep a tenant's questions, and notes it.
func (d *Desk) sweeps(tenant runtime.Tenant) bool {
	d.sweeping.Lock()
	defer d.sweeping.Unlock()
	now := d.now()
	if last, before := d.swept[tenant]; before && now.Sub(last) < sweepPause {
		return false
	}
	if d.swept == nil {
		d.swept = map[runtime.Tenant]time.Time{}
	}
	d.swept[tenant] = now
	return true
}

// watch follows one approval until it is used, ended, or the hold is over, or until a yes to
// another request allows this one too, which standing knows.
// Neither used nor an error means that an identical request used it.
func (d *Desk) watch(ctx context.Context, a Approval, until time.Time, standing func() (runtime.Ticket, bool, error)) (ticket runtime.Ticket, used bool, err error) {
	asked := a
	for first := true; ; first = false {
		changed := d.changed() // before the store is read, so that no decision falls between
		found := true
		a, found, err = d.o.Store.Glance(ctx, a.Tenant, a.ID)
		if err == nil && a.State == Approved { // what is used is read whole, and judged as it is then
			a, found, err = d.o.Store.Approval(ctx, a.Tenant, a.ID)
		}
		if err == nil && found && (a.State == Expired || a.State == Pending && !first) { // expired: an identical one may have closed it
			ticket, used, err = standing()
		}
		if used {
			return ticket, true, nil
		}
		switch {
		case err != nil && ctx.Err() != nil: // at the very moment that the store was read
			return ticket, false, gone(&asked, ctx.Err())
		case err != nil:
			return ticket, false, err
		case !found:
			return ticket, false, unknownID(asked.ID)
		case a.State == Approved:
			return d.use(ctx, &a)
		case a.State == Rejected:
			return ticket, false, rejected(&a)
		case a.State == Expired:
			return ticket, false, d.over(&a)
		case a.State != Pending:
			return ticket, false, nil
		}
		left := time.Until(until)
		if d.expired(&a) {
			if _, err := d.expire(ctx, &a); err != nil {
				return ticket, false, err
			}
			continue
		}
		if left <= 0 {
			return ticket, false, pending(&a, d.now())
		}
		if err := d.pause(ctx, changed, left); err != nil {
			return ticket, false, gone(&a, err)
		}
	}
}

// use consumes an approved approval, verified, for one execution.
func (d *Desk) use(ctx context.Context, a *Approval) (ticket runtime.Ticket, used bool, err error) {
	if d.expired(a) {
		if _, err := d.expire(ctx, a); err != nil {
			return ticket, false, err
		}
		return ticket, false, d.over(a)
	}
	f, err := d.open(ctx, a)
	if err == nil && f.former {
		err = heldBefore(a)
	}
	if err != nil {
		return ticket, false, err
	}
	yes, err := d.yes(ctx, a, f.Terms)
	if err != nil {
		return ticket, false, err
	}
	moved, err := d.move(ctx, a.Tenant, a.ID, Approved, Executing, Change{At: d.now(), Holder: d.o.Process()})
	if err != nil || !moved {
		return ticket, false, err
	}
	a.By, a.Presence = yes.By, yes.Presence
	ticket = d.handOut(a)
	if d.expired(a) { // the store took its time
		late := d.over(a)
		if err := d.Finish(ctx, ticket, late); err != nil {
			return runtime.Ticket{}, false, err
		}
		return runtime.Ticket{}, false, late
	}
	return ticket, true, nil
}

// Finish implements [runtime.Approver]. An error's code and message are kept
// with the approval; one that cut the execution off after something may have
// left makes its end unknown, not failed. An end that the store does not take is
// written later. Finish fails for a ticket that this desk has not handed out or that was
// finished already.
func (d *Desk) Finish(ctx context.Context, ticket runtime.Ticket, err error) error {
	d.mu.Lock()
	tenant, ours := d.tickets[ticket.ID]
	delete(d.tickets, ticket.ID)
	d.mu.Unlock()
	if !ours {
		return notExecuting(ticket.ID)
	}
	e := end{id: ticket.ID, tenant: tenant, to: Executed, change: Change{At: d.now()}}
	if err != nil {
		cause := runtime.AsError(err)
		e.to, e.change.Note = Failed, string(cause.Code)+": "+cause.Msg
		if runtime.MayHaveHappened(err) {
			e.to, e.change.Note = Unknown, e.change.Note+"; it may have happened all the same"
		}
	}
	moved, werr := d.write(ctx, &e)
	switch {
	case werr != nil:
		d.later(e, werr)
	case !moved:
		err := notExecuting(ticket.ID)
		d.tellLate(ticket.ID, err)
		return err
	}
	return nil
}
