package app

import (
	"context"
	"net"
	"time"

	"github.com/kimbap-run/kimbap/internal/mask"
	"github.com/kimbap-run/kimbap/internal/notices"
	"github.com/kimbap-run/kimbap/internal/waiting"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/approval/notify"
)

// How people are asked, and told that they are: the desk of approvals and its notices.

// masks take what is stored out of what people are shown.
func (a *App) masks() mask.Masks { return mask.Masks{Vault: a.vault, Forms: a.forms} }

func (a *App) openApprovals(context.Context) (err error) {
	tell := a.tell
	if len(a.config.Current().Approval.Notify) == 0 { // what nobody is told need not be masked
		tell = nil
	}
	a.approvals, err = approval.New(approval.Options{
		Store: a.store, Sealer: a.vault, Clock: a.o.Clock,
		NewID:   func() string { return runtime.NewID("apr", a.o.Clock()) },
		Terms:   approvalTerms(a.config.Current()),
		Tell:    tell,
		Process: a.neighbours.Holder, Alive: a.neighbours.Alive, Ended: a.requesterEnded, Late: a.toldLate, Mask: a.masks().Of,
		Placeholder: func(value string) bool { _, known := a.placeholder(value); return known },
		HashKey:     a.vault.HashKey,
		Stored:      a.vault.Stored,
	})
	if err != nil {
		return err
	}
	a.onClose(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, lateEnds)
		defer cancel()
		a.approvals.Close(ctx)
		return nil // said already, and what was executed is done
	})
	room := waiting.Options{Desk: a.approvals, Identity: a.identity}
	if a.o.Slot == "" { // which has no watch
		room.Every = watchEvery
	} else {
		a.witness.Start() // which forgets old ones
	}
	a.waiting = waiting.New(room)
	return nil
}

// lateEnds is how long the end of this process waits for a database that did not take
// how executions ended; the trail needs the rest of the time.
const lateEnds = 5 * time.Second

// toldLate logs an end of an execution that could not be written yet, and that it was.
func (a *App) toldLate(id string, err error) {
	if err != nil {
		a.o.Log.Error().Err(err).Str("approval", id).Msg("how the execution of an approval ended could not be stored")
		return
	}
	a.o.Log.Info().Str("approval", id).Msg("how the execution of an approval ended is stored now")
}

// openNotify makes the senders that approval.notify names.
func (a *App) openNotify(context.Context) error {
	c := a.config.Current().Approval
	if len(c.Notify) == 0 {
		return nil
	}
	trust, err := a.upstreamTLS()
	if err != nil {
		return err
	}
	a.notices, err = notices.Open(notices.Options{
		Notifiers: c.Notify, Link: c.Link, Clock: a.o.Clock, Dial: a.dialNotified, Trust: trust, Credential: a.connector.Credential,
		Reached: func(ctx context.Context, tenant runtime.Tenant, sender string) {
			if err := a.approvals.Reached(ctx, tenant, sender); err != nil {
				a.o.Log.Warn().Err(err).Msg("a notification arrived, but that could not be noted")
			}
		},
		Told: func(ctx context.Context, tenant runtime.Tenant, ids []string) {
			if err := a.approvals.Told(ctx, tenant, ids); err != nil {
				a.o.Log.Warn().Err(err).Msg("people were told of an approval, but that could not be noted")
			}
		},
		Changed: a.notified,
	})
	if err != nil {
		return err
	}
	a.onClose(a.notices.Close)
	return nil
}

// tell passes a question on; without senders there is nobody to tell.
func (a *App) tell(n approval.Notice) <-chan struct{} { return a.notices.Tell(n) }

// tellEvery is how often a process that serves looks for questions that another has left
// untold: one that was killed, or that no sender took a message from.
const tellEvery = time.Minute

// keepTold does so until ctx ends, at once for the first time. It has a goroutine of its own,
// as [App.keepUses] has.
func (a *App) keepTold(ctx context.Context) {
	if a.notices == nil {
		return
	}
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		a.tellLeft(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tellLeft tells people of what others have left, of every tenant.
func (a *App) tellLeft(ctx context.Context) {
	if a.Locked() != nil { // nobody could decide
		return
	}
	for _, tenant := range a.Tenants() {
		n, err := a.approvals.TellLeft(ctx, tenant)
		if n > 0 {
			a.o.Log.Info().Int("approvals", n).Msg("people are told of approvals that another process left")
		}
		if err != nil && ctx.Err() == nil {
			a.o.Log.Warn().Err(err).Msg("approvals that nobody was told of could not be looked for")
		}
	}
}

// dialNotified opens a connection for a notification, through the same guard as
// any other. The operator has named the place.
func (a *App) dialNotified(ctx context.Context, authority string) (net.Conn, error) {
	conn, _, _, err := a.dialer().Dial(ctx, authority, true, false)
	return conn, err
}

// notified says in log and status how a sender fares.
func (a *App) notified(s notify.Status) {
	if s.Problem != "" {
		a.o.Log.Warn().Str("sender", s.Sender).Str("problem", s.Problem).Int("failed", s.Failed).Msg("nobody was told of an approval")
	}
	if s.Missed != "" {
		a.o.Log.Warn().Str("sender", s.Sender).Str("problem", s.Missed).Msg("not everybody was told of an approval")
	}
	a.writeState()
}

// NotifyResult is how a test message went.
type NotifyResult = notices.Result

// TestNotify sends a test message by every sender, once each.
func (a *App) TestNotify(ctx context.Context) ([]NotifyResult, error) {
	if a.notices == nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "no notifier is configured",
			Hint: "add one to config.yaml: approval: {notify: [{type: slack, token: notify.slack, channel: C0123456789}]}",
		}
	}
	return a.notices.Try(ctx), nil
}
