package app

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// What takes a right away is recorded first too, and the ledger is enough for that: whoever
// can make a required sink fail, or hang, must not keep a token valid or a key in the vault by
// it. The sink gets these records when it can, before anything else passes.

// inLedger records what waits for no required sink: that a right is about to be taken away, or
// that a process begins to serve, which passes no request before the sinks have all. Without an
// error the ledger has it, durably. It waits for who is writing, so the watch announces instead.
func (a *App) inLedger(_ context.Context, event record.Event) error { return a.trail.Insist(event) }

// told records what has happened, or happens all the same: the ledger gets it as soon as it
// can. The error says that it has it not yet.
func (a *App) told(event record.Event) error {
	err := a.trail.Insist(event)
	if err != nil {
		a.trail.Note(event)
	}
	return err
}

// inPassing records what the watch does of itself, such as making a token good for longer, and
// waits for no sink that hangs: revocations are seen by the watch. The ledger has it before any
// request that comes later; while the trail takes no requests it is not done.
func (a *App) inPassing(_ context.Context, event record.Event) error {
	err := a.trail.Ready()
	if err == nil {
		a.trail.Note(event)
	}
	return err
}

// depriving is [App.noted] for what takes a right away.
func (a *App) depriving(ctx context.Context, kind string, fields map[string]string, act func() error) error {
	return between(ctx, a.inLedger, record.Event{Kind: kind, Principal: a.Operator().ID, Tenant: a.tenant, Fields: fields}, act)
}

// deprivingOf is depriving of what may not be there: false, which is no error, and in the
// trail it came to nothing.
func (a *App) deprivingOf(ctx context.Context, kind string, fields map[string]string, act func() (bool, error)) (found bool, err error) {
	none := &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is none"} // for the record
	err = a.depriving(ctx, kind, fields, func() (err error) {
		if found, err = act(); err == nil && !found {
			err = none
		}
		return err
	})
	if errors.Is(err, none) {
		err = nil
	}
	return found, err
}

// endTime is how long the record of an end is waited for.
const endTime = 5 * time.Second

// between does something between two records: that it was asked for, and, when it came
// to nothing, how it ended. Both attempts of a race stand in the trail, the loser's
// with its end.
func between(ctx context.Context, put func(context.Context, record.Event) error, event record.Event, act func() error) error {
	if err := put(ctx, event); err != nil {
		return err
	}
	err := act()
	if err != nil {
		fields := map[string]string{}
		maps.Copy(fields, event.Fields)
		fields["result"] = string(runtime.CodeOf(err))
		event.Fields = fields
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime) // what ended it may be the caller's going away
		defer cancel()
		_ = put(late, event)
	}
	return err
}
