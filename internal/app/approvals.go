package app

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/mask"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// ListLimit bounds a list of approvals; the newest come first.
const ListLimit = 500

// Approval is an approval as it is shown: no sealed bytes.
type Approval struct {
	ID        string          `json:"id"`
	State     string          `json:"state"`
	Principal string          `json:"principal"`
	Agent     string          `json:"agent"`
	Surface   runtime.Surface `json:"surface"`
	Action    runtime.Ref     `json:"action"`
	Risk      runtime.Risk    `json:"risk"`
	Rule      string          `json:"rule"`
	Reason    string          `json:"reason,omitempty"`
	Summary   string          `json:"summary"`
	Created   time.Time       `json:"created"`
	Expires   time.Time       `json:"expires"`
	By        string          `json:"by,omitempty"`
	Presence  string          `json:"presence,omitempty"`
	Note      string          `json:"note,omitempty"`
	Ended     bool            `json:"requester_ended,omitempty"` // nobody could use a yes
	Over      bool            `json:"script_ended,omitempty"`    // its script has: a yes is for the same call, made again
	Own       bool            `json:"own_login,omitempty"`       // of accept: made with the requester's own login, so only they make it again
	Args      runtime.Args    `json:"args,omitempty"`            // of show: as its text has them, secret ones hidden
}

// Connection reports whether it is for one, which only its client can open: nobody collects it.
func (a *Approval) Connection() bool {
	return a.Action == runtime.ActionTunnel || a.Action == runtime.ActionPass && strings.HasPrefix(a.Summary, http.MethodConnect+" ")
}

func shownApproval(p approval.Approval) Approval {
	summary := string(p.Action)
	if p.Authority != "" {
		summary = p.Method + " " + p.Authority + p.Path
	}
	return Approval{
		ID: p.ID, State: string(p.State), Principal: p.Principal, Agent: p.Agent, Surface: p.Surface,
		Action: p.Action, Risk: p.Risk, Rule: p.Rule, Reason: p.Reason, Summary: summary,
		Created: p.Created, Expires: p.Expires, By: p.By, Presence: p.Presence, Note: p.Note,
	}
}

// ListApprovals lists what waits for a decision, or with all everything, the
// newest first.
func (a *App) ListApprovals(ctx context.Context, all bool) ([]Approval, error) {
	return a.listApprovals(ctx, all, func(*Approval) bool { return true })
}

// listApprovals opens what is sealed, for the arguments of built requests, of those only
// that are wanted, and returns no others.
func (a *App) listApprovals(ctx context.Context, all bool, wanted func(*Approval) bool) ([]Approval, error) {
	if _, err := a.approvals.Sweep(ctx, a.tenant); err != nil {
		return nil, err
	}
	states := []approval.State{approval.Pending}
	if all {
		states = nil
	}
	list, err := a.approvals.List(ctx, a.Operator(), a.tenant, states, ListLimit)
	if err != nil {
		return nil, err
	}
	ended, err := a.endedTokens(ctx, a.tenant)
	hide, unknowable := a.masks().Of(ctx, a.tenant)
	over := map[string]bool{} // of scripts; one may have asked for much
	out := []Approval{}
	for _, p := range list {
		shown := shownApproval(p)
		shown.Ended = p.Open() && ended[p.Principal]
		if !wanted(&shown) {
			continue
		}
		if p.Authority == "" { // a built request: its arguments say what it is about
			arguments, execution := a.argumentsOf(ctx, p.ID, hide)
			shown.Summary += arguments
			if _, known := over[execution]; !known && p.Open() {
				over[execution] = a.scriptEnded(ctx, execution)
			}
			shown.Over = p.Open() && over[execution]
		} else if unknowable == nil {
			shown.Summary = hide(shown.Summary)
		} else { // locked: nobody decides it now
			shown.Summary = summaryOfLocked(&p)
		}
		out = append(out, shown)
	}
	return out, err
}

// summaryOfLocked leaves out the path, in which nobody can mask what is stored.
func summaryOfLocked(p *approval.Approval) string { return p.Method + " " + p.Authority }

// argumentsOf writes the arguments of a held request for one line of a list,
// in order, cut where they get long. `approve show` has them whole. With them comes the execution
// of the script that asked.
func (a *App) argumentsOf(ctx context.Context, id string, hide func(text string) string) (line, execution string) {
	args, execution, err := a.approvals.Arguments(ctx, a.Operator(), a.tenant, id)
	if err != nil {
		return "", "" // what cannot be opened cannot be accepted either; show says why
	}
	args = mask.Args(hide, args)
	const most = 60
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if args[name] == nil {
			b.WriteString(" " + name + "=null")
			continue
		}
		fmt.Fprintf(&b, " %s=%v", name, args[name])
	}
	text := []rune(b.String())
	if len(text) > most {
		return string(text[:most-1]) + "…", execution
	}
	return string(text), execution
}

// scriptEnded reports whether the script that asked has ended. Of one that is forgotten, or that
// the store cannot tell of now, that is not known.
func (a *App) scriptEnded(ctx context.Context, execution string) bool {
	if execution == "" {
		return false
	}
	row, found, err := a.store.Execution(ctx, a.tenant, execution)
	return err == nil && found && row.State == journal.Ended
}

// ShowApproval returns an approval and the text a person decides by.
func (a *App) ShowApproval(ctx context.Context, id string, full bool) (Approval, string, error) {
	view, err := a.approvals.Show(ctx, a.Operator(), a.tenant, id, full)
	if err != nil {
		return shownApproval(view.Approval), "", err
	}
	return a.shown(ctx, &view)
}

// shown is a view without the stored credentials that stand in it.
func (a *App) shown(ctx context.Context, view *approval.View) (Approval, string, error) {
	shown := shownApproval(view.Approval)
	hide, err := a.masks().Of(ctx, a.tenant)
	if err != nil {
		return shown, "", err
	}
	shown.Summary, shown.Args = hide(shown.Summary), mask.Args(hide, view.Args)
	if view.Approval.Open() {
		shown.Ended, err = a.requesterEnded(ctx, a.tenant, view.Approval.Principal)
		shown.Over = a.scriptEnded(ctx, view.Execution)
	}
	return shown, hide(view.Text), err
}

// requesterEnded reports whether a principal's token is no longer valid: a yes to
// what it asked for can be used by nobody.
func (a *App) requesterEnded(ctx context.Context, tenant runtime.Tenant, principal string) (bool, error) {
	ended, err := a.endedTokens(ctx, tenant)
	return ended[principal], err
}

// endedTokens are the principals of a tenant whose tokens are revoked or expired.
func (a *App) endedTokens(ctx context.Context, tenant runtime.Tenant) (map[string]bool, error) {
	tokens, err := a.identity.List(ctx, tenant)
	ended := map[string]bool{}
	for _, t := range tokens {
		if !t.Valid(a.o.Clock()) {
			ended[t.Principal()] = true
		}
	}
	return ended, err
}

// undecided says what is to be known of the questions of a run that has ended:
// they ended with it. Empty when there are none.
func (a *App) undecided(ctx context.Context, asker runtime.Principal) (ids []string) {
	open, err := a.approvals.Asked(ctx, asker, []approval.State{approval.Pending}, ListLimit)
	if err != nil {
		return nil // the run has ended, whatever is open
	}
	for _, one := range open {
		ids = append(ids, one.ID)
	}
	return ids
}

// Yes is a person's yes.
type Yes = approval.Yes

// Accept decides for a request in the operator's name, or that of the person
// whom the yes names.
func (a *App) Accept(ctx context.Context, id string, yes Yes) (Approval, error) {
	fields := map[string]string{"approval": id, "presence": shownPresence(yes.PIN)}
	if yes.As != "" {
		fields["person"] = yes.As
	}
	if yes.For > 0 {
		fields["for"] = yes.For.String()
	}
	if yes.Run {
		fields["for"] = strings.TrimSpace(fields["for"] + " run")
	}
	var p approval.Approval
	err := a.noted(ctx, "approval.accept", fields, func() (err error) {
		p, err = a.approvals.Accept(ctx, a.Operator(), a.tenant, id, yes)
		return err
	})
	now := shownApproval(p)
	if err == nil {
		now.Own = a.ownLogin(ctx, &now)
		now.Ended, err = a.requesterEnded(ctx, a.tenant, now.Principal)
	}
	return now, err
}

// ownLogin reports whether only its requester can make a request again, for its login.
func (a *App) ownLogin(ctx context.Context, one *Approval) bool {
	who := a.Operator()
	who.Tenant = a.tenant
	return !one.Connection() && runtime.CodeOf(a.approvals.Repeatable(ctx, who, one.ID)) == runtime.CodeInvalidInput
}

// shownPresence is what a decision that counts was made with: a wrong PIN decides
// nothing.
func shownPresence(pin runtime.Secret) string {
	if pin.Empty() {
		return "none"
	}
	return "pin"
}

// Reject decides against a request; the note is for the requester.
func (a *App) Reject(ctx context.Context, id, note string) (Approval, error) {
	fields := map[string]string{"approval": id, "presence": "none"}
	var p approval.Approval
	err := a.depriving(ctx, "approval.reject", fields, func() (err error) {
		p, err = a.approvals.Reject(ctx, a.Operator(), a.tenant, id, note)
		return err
	})
	return shownApproval(p), err
}

// noted does what an operator asked for between two records, see [App.within]. The watch does it
// by [App.inPassing].
func (a *App) noted(ctx context.Context, kind string, fields map[string]string, act func() error) error {
	event := record.Event{Kind: kind, Principal: a.Operator().ID, Tenant: a.tenant, Fields: fields}
	if ctx.Value(looking{}) != nil {
		return between(ctx, a.inPassing, event, act)
	}
	return a.within(ctx, event, act)
}

// within does something between two records, see [between].
func (a *App) within(ctx context.Context, event record.Event, act func() error) error {
	return between(ctx, a.trail.Event, event, act)
}

// WaitApproval waits for the decision on a request of the caller's own, and
// executes it when it was accepted. Where a redirect leads to a further question, next
// is told of it and it is waited for too; without next the question is an error.
func (a *App) WaitApproval(ctx context.Context, id string, out *Answer, next func(id string, until time.Time)) (*runtime.Action, runtime.Args, error) {
	caller, err := a.Caller(ctx)
	if err != nil {
		return nil, nil, err
	}
	return a.waitAndCollect(ctx, caller, id, out, next)
}

// waitAndCollect is [App.WaitApproval] for any caller.
func (a *App) waitAndCollect(ctx context.Context, caller runtime.Caller, id string, out *Answer, next func(id string, until time.Time)) (*runtime.Action, runtime.Args, error) {
	me, err := a.identity.Identify(ctx, caller)
	if err != nil {
		return nil, nil, err
	}
	if err := a.collectable(ctx, me, id); err != nil { // before a person is waited for
		return nil, nil, err
	}
	decided, err := a.waiting.Decided(ctx, caller, me, id)
	if err != nil {
		return nil, nil, err
	}
	return a.collect(ctx, caller, me, decided, out, func(req *runtime.Request) {
		if req.OnPending = next; next != nil {
			req.Hold = a.Config().Approval.Expires.Duration()
		}
	})
}

// collect executes what was decided for, in its requester's name and under the id of out if it
// has one already, into an answer that is bounded like out. A redirect is followed as one of a
// call is: the yes is not for that, and asks says of the request how a further question is told.
func (a *App) collect(ctx context.Context, caller runtime.Caller, me runtime.Principal, decided approval.Approval, out *Answer, asks func(*runtime.Request)) (*runtime.Action, runtime.Args, error) {
	if err := a.approvals.Refusal(&decided); err != nil {
		return nil, nil, err
	}
	if decided.State != approval.Approved {
		return nil, nil, approval.Spent(&decided)
	}
	held, err := a.approvals.Held(ctx, me, decided.ID)
	if err == nil {
		err = a.leftToScript(ctx, me.Tenant, held.Execution, decided.ID)
	}
	if err != nil {
		return nil, nil, err
	}
	req := held.Request()
	req.ID, req.Caller, req.Approval = out.RequestID, caller, decided.ID
	asks(req)
	a.readable(req)
	action, err := a.heldAction(req)
	if err != nil {
		return nil, nil, err
	}
	answer, err := a.calls(ctx).Do(ctx, a.pipeline, req, action, *out)
	if err == nil {
		*out = *answer
	}
	return action, held.Args, err
}

// heldAction is the action of a request that was held, of no service too.
func (a *App) heldAction(req *runtime.Request) (*runtime.Action, error) {
	if !req.Action.Foreign() {
		return a.Action(string(req.Action))
	}
	found, err := a.services.Resolve(req)
	return found.Action, err
}

// approvalStatus is what /kimbap/approvals/ID answers its requester.
func (a *App) approvalStatus(ctx context.Context, caller runtime.Caller, id string) (any, error) {
	me, err := a.identity.Identify(ctx, caller)
	if err != nil {
		return nil, err
	}
	p, err := a.approvals.Status(ctx, me, id)
	if err != nil {
		return nil, err
	}
	return shownApproval(p), nil
}

// WatchApprovals lists what waits, can still be used by who asked, and is not known to the
// watcher, and says that somebody can answer for so long: meanwhile requests that hold
// automatically wait for the answer.
func (a *App) WatchApprovals(ctx context.Context, lasting time.Duration, known func(id string) bool) ([]Approval, error) {
	if err := a.approvals.Beat(ctx, a.Operator(), a.tenant, lasting); err != nil {
		return nil, err
	}
	return a.listApprovals(ctx, false, func(p *Approval) bool { return !p.Ended && !known(p.ID) })
}
