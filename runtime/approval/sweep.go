package approval

import (
	"context"

	"github.com/kimbap-run/kimbap/runtime"
)

// sweepLimit is how many approvals of a state one sweep looks at.
const sweepLimit = 10_000

// Sweep closes what nobody will: open approvals past their time become expired,
// executing ones whose process is gone become unknown. It returns how many it
// closed. Then it takes away requests that closed ones still have, as far as the vault
// opens them now. Any number of processes may sweep at once.
func (d *Desk) Sweep(ctx context.Context, tenant runtime.Tenant) (int, error) {
	closed, err := d.closeOverdue(ctx, tenant, "")
	if err == nil {
		_ = d.releaseAll(ctx, tenant) // what cannot be now waits for the next sweep
	}
	return closed, err
}

// closeOverdue closes what nobody will, and of who asks what it can use no more; it returns how
// many that were.
func (d *Desk) closeOverdue(ctx context.Context, tenant runtime.Tenant, asks string) (int, error) {
	list, err := d.o.Store.Approvals(ctx, tenant, "", []State{Pending, Approved, Executing}, sweepLimit)
	if err != nil {
		return 0, err
	}
	closed := 0
	for i := range list {
		to, change := d.overdue(&list[i], asks)
		if to == "" {
			continue
		}
		moved, err := d.o.Store.Move(ctx, tenant, list[i].ID, list[i].State, to, change)
		if err != nil {
			return closed, err
		}
		if moved {
			closed++
		}
	}
	if closed > 0 {
		d.wake()
	}
	return closed, nil
}

// overdue returns the state that an approval must go to, "" for none.
func (d *Desk) overdue(a *Approval, asks string) (State, Change) {
	change := Change{At: d.now()}
	switch {
	case a.State == Executing && !d.o.Alive(a.Holder) && a.Holder != d.o.Process():
		change.Note = "the process that executed it ended, or was heard of no more, before it could say how it went"
		return Unknown, change
	case a.State != Executing && (d.past(a) || a.Principal == asks && d.expired(a)):
		return Expired, change
	}
	return "", change
}
