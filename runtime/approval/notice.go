package approval

import (
	"cmp"
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Notice tells people of a new question. Its texts are safe to show anywhere:
// one line each, cut, without control characters and declared secrets, and
// without the query, the header and the body.
type Notice struct {
	ID        string         `json:"id"`
	Tenant    runtime.Tenant `json:"tenant"`
	Action    string         `json:"action"`
	Risk      string         `json:"risk"`
	Rule      string         `json:"rule"`
	Reason    string         `json:"reason,omitempty"`
	Agent     string         `json:"agent"`
	Principal string         `json:"principal"`
	Surface   string         `json:"surface"`
	Request   string         `json:"request,omitempty"` // method, host and path; "" for a built request
	Expires   time.Time      `json:"expires"`
}

// noticeText is how much of one text a notice shows, in characters.
const noticeText = 200

// notice takes the notice of a question from what was sealed of it.
func (d *Desk) notice(ctx context.Context, a *Approval, f *dossier) Notice {
	mask, err := d.mask(ctx, a.Tenant)
	if err != nil { // nobody knows what may be shown, and somebody is to be told
		mask = func(string) string { return "[not shown]" }
	}
	s := &sheet{hidden: f.hiddenValues(), stored: mask}
	cut := func(masked string) string {
		shown, whole := visible(masked, noticeText)
		if !whole {
			shown += "…"
		}
		return shown
	}
	text := func(text string) string { return cut(s.mask(text)) }
	n := Notice{
		ID: a.ID, Tenant: a.Tenant, Action: text(string(f.Action)), Risk: text(string(f.Risk)), Rule: text(f.Rule), Reason: text(f.Reason),
		Agent: text(f.Agent), Principal: text(f.Principal), Surface: text(string(f.Surface)), Expires: f.Expires.UTC(),
	}
	if f.Target.Authority != "" {
		n.Request = cut(s.place(f))
	}
	return n
}

// Told says that the senders have done with these questions: who ends now leaves nobody to
// be told of them. The text of a [Notice] has been on its way since [Options.Tell].
func (d *Desk) Told(ctx context.Context, tenant runtime.Tenant, ids []string) error {
	_, err := d.o.Store.SetTeller(ctx, tenant, ids, d.o.Process(), "")
	return err
}

// TellLeft tells people of the open questions of a tenant that a process left when it ended
// before somebody was told, and returns how many those are. Of several processes one does.
func (d *Desk) TellLeft(ctx context.Context, tenant runtime.Tenant) (told int, err error) {
	if d.o.Tell == nil {
		return 0, nil
	}
	list, err := d.o.Store.Approvals(ctx, tenant, "", []State{Pending}, sweepLimit)
	lives := map[string]bool{"": true, d.o.Process(): true}
	for i := range list { // what one lacks keeps nobody from the others
		a := &list[i]
		if _, asked := lives[a.Teller]; !asked {
			lives[a.Teller] = d.o.Alive(a.Teller)
		}
		if lives[a.Teller] || d.expired(a) {
			continue
		}
		mine, failed := d.tellFor(ctx, a)
		if mine {
			told++
		}
		err = cmp.Or(err, failed)
	}
	return told, err
}

// tellFor tells of a question whose teller has ended, unless another process does.
func (d *Desk) tellFor(ctx context.Context, left *Approval) (mine bool, err error) {
	a, found, err := d.o.Store.Approval(ctx, left.Tenant, left.ID)
	if err != nil || !found {
		return false, err
	}
	f, err := d.open(ctx, &a)
	if err != nil {
		if runtime.AsError(err).Reason == runtime.ReasonTampered { // nobody can decide it
			err = nil
		}
		return false, err
	}
	if mine, err = d.o.Store.SetTeller(ctx, a.Tenant, []string{a.ID}, left.Teller, d.o.Process()); mine {
		d.o.Tell(d.notice(ctx, &a, f))
	}
	return mine, err
}

// How long a request waits to learn that somebody was told, and how long after
// that people count as able to answer.
const (
	toldWait  = 100 * time.Millisecond
	toldLasts = 5 * time.Minute
)

// Reached says that people of the tenant were told by this channel: for five
// minutes requests that hold automatically wait for them.
func (d *Desk) Reached(ctx context.Context, tenant runtime.Tenant, channel string) error {
	return d.o.Store.Beat(ctx, tenant, "notify:"+channel, d.now().Add(toldLasts))
}

// awaitTold waits a moment for the first notification to get through.
func awaitTold(ctx context.Context, told <-chan struct{}) bool {
	if told == nil {
		return false
	}
	timer := time.NewTimer(toldWait)
	defer timer.Stop()
	select {
	case <-told:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}
