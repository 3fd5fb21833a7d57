package approval

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// List returns a tenant's approvals in these states, all when there are none,
// newest first and without what is sealed. Only an operator may.
func (d *Desk) List(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, states []State, limit int) ([]Approval, error) {
	if by.Kind != runtime.KindOperator {
		return nil, notOperator()
	}
	if !operates(&by, tenant) {
		return nil, nil
	}
	return d.o.Store.Approvals(ctx, tenant, "", states, limit)
}

// Asked returns the approvals that a principal asked for, as [Desk.List] does.
func (d *Desk) Asked(ctx context.Context, who runtime.Principal, states []State, limit int) ([]Approval, error) {
	if who.ID == "" {
		return nil, nil
	}
	return d.o.Store.Approvals(ctx, who.Tenant, who.ID, states, limit)
}

// Status returns an approval to its requester or an operator, without what is
// sealed. To anybody else the id is unknown.
func (d *Desk) Status(ctx context.Context, who runtime.Principal, id string) (Approval, error) {
	a, err := d.visibleTo(ctx, who, id)
	if err != nil {
		return Approval{}, err
	}
	if (a.State == Pending || a.State == Approved) && d.expired(&a) {
		a.State = Expired
	}
	return a, nil
}

// Wait is [Desk.Status] once the approval is no longer pending.
func (d *Desk) Wait(ctx context.Context, who runtime.Principal, id string) (Approval, error) {
	a, _, err := d.waitUntil(ctx, who, id, func() bool { return false })
	return a, err
}

// WaitAllowed is [Desk.Wait] that ends as well once [Desk.Allowed] says yes, which it reports. That
// this cannot be told just now, as while the vault is locked, ends no wait.
func (d *Desk) WaitAllowed(ctx context.Context, who runtime.Principal, id string) (a Approval, allowed bool, err error) {
	var l like
	return d.waitUntil(ctx, who, id, func() bool {
		allowed, err := d.allowed(ctx, who, id, &l)
		return allowed && err == nil
	})
}

// waitUntil waits until an approval is no longer pending, or enough says that this is enough.
func (d *Desk) waitUntil(ctx context.Context, who runtime.Principal, id string, enough func() bool) (a Approval, is bool, err error) {
	for {
		changed := d.changed()
		a, err := d.Status(ctx, who, id)
		if err != nil && ctx.Err() != nil { // at the very moment that the store was read
			return Approval{}, false, gone(&Approval{ID: id}, ctx.Err())
		}
		if err != nil || a.State != Pending {
			return a, false, err
		}
		if enough() {
			return a, true, nil
		}
		if err := d.pause(ctx, changed, d.o.Poll); err != nil {
			return a, false, gone(&a, err)
		}
	}
}

// Allowed reports whether a yes for a while allows what an open question of this principal is
// about: the same request, sent again, closes the question.
func (d *Desk) Allowed(ctx context.Context, who runtime.Principal, id string) (bool, error) {
	return d.allowed(ctx, who, id, &like{})
}

// like are the scopes of a question, once they were needed: who waits asks several times a second,
// and a held request may be megabytes.
type like struct{ scopes []string }

func (d *Desk) allowed(ctx context.Context, who runtime.Principal, id string, l *like) (bool, error) {
	if l.scopes == nil {
		standing, err := d.o.Store.Grants(ctx, who.Tenant, "", d.now())
		if err != nil || len(standing) == 0 { // mostly: what is sealed need not be read
			return false, err
		}
		a, found, err := d.o.Store.Approval(ctx, who.Tenant, id)
		if err != nil || !found || who.ID == "" || a.Principal != who.ID || a.State != Pending {
			return false, err
		}
		f, err := d.open(ctx, &a)
		if err == nil {
			l.scopes, err = f.scopes()
		}
		if err != nil {
			return false, err
		}
	}
	g, _, err := d.inForce(ctx, who.Tenant, l.scopes)
	return g != nil && err == nil, err
}

// Held returns the request of an approval to its requester, and to nobody
// else, to be sent again. That it was approved is checked when it is. One with the
// requester's own login, and a connection, it refuses.
func (d *Desk) Held(ctx context.Context, who runtime.Principal, id string) (HeldRequest, error) {
	a, found, err := d.o.Store.Approval(ctx, who.Tenant, id)
	if err != nil {
		return HeldRequest{}, err
	}
	if !found || who.ID == "" || a.Principal != who.ID {
		return HeldRequest{}, unknownID(id)
	}
	if a.released() {
		return HeldRequest{}, decidedAlready(&a)
	}
	f, err := d.open(ctx, &a)
	if err == nil {
		err = f.repeatable(&a)
	}
	if err != nil {
		return HeldRequest{}, err
	}
	return f.HeldRequest, nil
}

// Repeatable refuses an approval that [Desk.Held] will refuse once it is decided: nobody need
// wait for that. Of one that is closed, that cannot be read now, as while the vault is locked, or
// that this principal may not know of, it says nothing.
func (d *Desk) Repeatable(ctx context.Context, who runtime.Principal, id string) error {
	a, found, err := d.o.Store.Approval(ctx, who.Tenant, id)
	if err != nil || !found || !a.Open() || who.ID == "" || who.Kind != runtime.KindOperator && a.Principal != who.ID {
		return nil // whoever collects it hears that
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	return f.repeatable(&a)
}

// Beat says that an operator of the tenant can answer for so long: requests
// that hold automatically wait while somebody can.
func (d *Desk) Beat(ctx context.Context, by runtime.Principal, tenant runtime.Tenant, lasting time.Duration) error {
	if !operates(&by, tenant) {
		return notOperator()
	}
	return d.o.Store.Beat(ctx, tenant, by.ID, d.now().Add(lasting))
}

// visibleTo finds an approval of the principal's tenant that it may know of,
// without what is sealed.
func (d *Desk) visibleTo(ctx context.Context, who runtime.Principal, id string) (Approval, error) {
	a, found, err := d.o.Store.Glance(ctx, who.Tenant, id)
	if err != nil {
		return Approval{}, err
	}
	if !found || who.ID == "" || who.Kind != runtime.KindOperator && a.Principal != who.ID {
		return Approval{}, unknownID(id)
	}
	return a, nil
}

// bare leaves out what is sealed.
func bare(a Approval) Approval {
	a.Sealed, a.Proof, a.Kept = nil, nil, nil
	return a
}
