package app

import (
	"cmp"
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/server/console"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// consoleDesk is what the console does: for the owner as the commands do, for a token with
// a role of the API as the API does.
type consoleDesk struct{ a *App }

var _ console.Desk = consoleDesk{}

// Enter implements [console.Desk]. Who shows no token is the owner, whom a link signed in.
func (d consoleDesk) Enter(ctx context.Context, caller runtime.Caller) (runtime.Principal, error) {
	if caller.IsOwner() {
		return d.a.Operator(), nil
	}
	who, err := d.a.identity.Identify(ctx, caller)
	if err == nil && !who.May(runtime.RoleOperator) {
		err = &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonNotOperator, Msg: "this needs a token with the role " + runtime.RoleOperator,
			Hint: "the owner makes one with: kimbap token create --agent NAME --scope GLOB --role " + runtime.RoleOperator,
		}
	}
	return who, err
}

// Note implements [console.Desk].
func (d consoleDesk) Note(ctx context.Context, who runtime.Principal, event, source string) error {
	return d.a.trail.Event(ctx, record.Event{Kind: event, Principal: who.ID, Tenant: who.Tenant, Fields: map[string]string{"source": source}})
}

// at is the App in which somebody acts.
func (d consoleDesk) at(who runtime.Principal) (*App, error) {
	if who.Kind == runtime.KindOperator && who.TokenID == "" {
		return d.a, nil // as Enter said
	}
	return d.a.seat(who)
}

// Waiting implements [console.Desk].
func (d consoleDesk) Waiting(ctx context.Context, who runtime.Principal, limit int, looking time.Duration) ([]console.Approval, error) {
	a, err := d.at(who)
	if err != nil {
		return nil, err
	}
	if err := a.approvals.Beat(ctx, a.Operator(), a.tenant, looking); err != nil {
		return nil, err
	}
	list, err := a.listApprovals(ctx, false, first(limit, func(*Approval) bool { return true }))
	return pagesOf(list), err
}

// Decided implements [console.Desk].
func (d consoleDesk) Decided(ctx context.Context, who runtime.Principal, limit int) ([]console.Approval, error) {
	a, err := d.at(who)
	if err != nil {
		return nil, err
	}
	list, err := a.listApprovals(ctx, true, first(limit, func(p *Approval) bool { return p.State != string(approval.Pending) }))
	if err != nil {
		return nil, err
	}
	called, err := a.called(ctx)
	out := pagesOf(list)
	for i := range out {
		out[i].By = called(out[i].By)
	}
	return out, err
}

// called names principals for people: of a token its agent and its id, "ada (tok_…)", as long as
// the token is known; anybody else as they are.
func (a *App) called(ctx context.Context) (func(principal string) string, error) {
	tokens, err := a.identity.List(ctx, a.tenant)
	agents := map[string]string{}
	for _, t := range tokens {
		agents["token:"+t.ID] = t.Agent + " (" + t.ID + ")"
	}
	return func(principal string) string { return cmp.Or(agents[principal], principal) }, err
}

// first wants the first of those that are wanted: the others are not opened.
func first(limit int, wanted func(*Approval) bool) func(*Approval) bool {
	return func(p *Approval) bool {
		if limit == 0 || !wanted(p) {
			return false
		}
		limit--
		return true
	}
}

func pagesOf(list []Approval) (out []console.Approval) {
	for _, p := range list {
		out = append(out, pageOf(p))
	}
	return out
}

func pageOf(p Approval) console.Approval {
	return console.Approval{
		ID: p.ID, State: p.State, Principal: p.Principal, Agent: p.Agent, Surface: string(p.Surface), Action: string(p.Action), Risk: string(p.Risk),
		Rule: p.Rule, Summary: oneLine(p.Summary), Created: p.Created, Expires: p.Expires, By: p.By, Presence: p.Presence, Note: p.Note, Ended: p.Ended,
	}
}

// longestLine is how many characters of a request stand in a list: an agent may write a path as
// long as a book, before which nobody finds the other requests.
const longestLine = 300

func oneLine(text string) string {
	if utf8.RuneCountInString(text) <= longestLine {
		return text
	}
	return string([]rune(text)[:longestLine-1]) + "…"
}

// mostShown is the longest request that a page has whole, in bytes as it is sealed. A page of
// some that is longer would be a hundred megabytes, which neither side is to bear.
const mostShown = 512 << 10

// Question implements [console.Desk].
func (d consoleDesk) Question(ctx context.Context, who runtime.Principal, id string) (q console.Question, err error) {
	a, err := d.at(who)
	if err != nil {
		return q, err
	}
	view, err := a.approvals.Show(ctx, a.Operator(), a.tenant, id, false)
	cut := !view.Complete
	if err == nil && cut && view.Size <= mostShown {
		view, err = a.approvals.Show(ctx, a.Operator(), a.tenant, id, true)
	}
	var shown Approval
	var text string
	if err == nil {
		shown, text, err = a.shown(ctx, &view)
	}
	if e := runtime.AsError(err); err != nil && (e.Code == runtime.CodeVaultLocked || e.Reason == runtime.ReasonTampered) {
		return a.closedQuestion(ctx, id, e)
	}
	if err != nil {
		return q, err
	}
	q = console.Question{Approval: pageOf(shown), Text: text}
	if !q.Pending() {
		called, err := a.called(ctx)
		q.By = called(q.By)
		return q, err
	}
	q.Long, q.TooLong, q.InRun = cut, cut && view.Size > mostShown, view.Approval.Run != ""
	q.Several, q.Given = view.Count, len(view.Voted)
	demanded, err := a.Demands(ctx, id)
	if err == nil {
		q.PIN = demanded == "pin"
		q.Persons, err = a.named(ctx)
	}
	if err == nil {
		q.Voted = len(q.Persons) == 0 && slices.Contains(view.Voted, a.Operator().ID)
		q.Like, q.Own, err = d.likeAndOwn(ctx, a, who, &view)
	}
	return q, err
}

// likeAndOwn are what the like of a request is, without stored credentials, and why a token decides
// nothing of it, as [consoleDesk.Decide] will say.
func (d consoleDesk) likeAndOwn(ctx context.Context, a *App, who runtime.Principal, view *approval.View) (like, own string, err error) {
	hide, err := a.masks().Of(ctx, a.tenant)
	if err != nil {
		return "", "", err
	}
	if who.TokenID == "" {
		return hide(view.Like), "", nil
	}
	err = apiOperator{a: d.a}.foreign(ctx, who, view.Approval)
	if e := runtime.AsError(err); err != nil && e.Reason == runtime.ReasonOwnRequest {
		return hide(view.Like), e.Msg + ": " + e.Hint, nil
	}
	return hide(view.Like), "", err
}

// closedQuestion is what stands beside what is sealed, while the vault is locked or where
// somebody has edited it: an approval can be rejected all the same.
func (a *App) closedQuestion(ctx context.Context, id string, why *runtime.Error) (console.Question, error) {
	p, err := a.approvals.Status(ctx, a.Operator(), id)
	if err != nil {
		return console.Question{}, err
	}
	shown := shownApproval(p)
	if p.Authority != "" {
		shown.Summary = summaryOfLocked(&p)
	}
	if p.Open() {
		shown.Ended, err = a.requesterEnded(ctx, a.tenant, p.Principal)
	}
	return console.Question{Approval: pageOf(shown), Locked: why.Msg, Unlock: why.Hint}, err
}

// Decide implements [console.Desk].
func (d consoleDesk) Decide(ctx context.Context, who runtime.Principal, id string, said console.Decision) (console.Approval, error) {
	if who.TokenID != "" {
		done, err := apiOperator{a: d.a}.Decide(ctx, who, id, server.Decision{
			Accept: said.Accept, Note: said.Note, For: said.For, Run: said.Run, Full: said.Whole, As: said.As, PIN: said.PIN,
		})
		p, _ := done.(Approval)
		return pageOf(p), err
	}
	a, err := d.at(who)
	if err != nil {
		return console.Approval{}, err
	}
	var p Approval
	if said.Accept {
		p, err = a.Accept(ctx, id, approval.Yes{For: said.For, Run: said.Run, Full: said.Whole, As: said.As, PIN: said.PIN})
	} else {
		p, err = a.Reject(ctx, id, said.Note)
	}
	return pageOf(p), err
}

// Standing implements [console.Desk].
func (d consoleDesk) Standing(ctx context.Context, who runtime.Principal) (out []console.Standing, err error) {
	a, err := d.at(who)
	if err != nil {
		return nil, err
	}
	list, err := a.Standing(ctx)
	if err != nil {
		return nil, err
	}
	called, err := a.called(ctx)
	for _, s := range list {
		out = append(out, console.Standing{ID: s.ID, Agent: s.Agent, Action: string(s.Action), Target: oneLine(s.Target), Run: s.Run, By: called(s.By), Expires: s.Expires})
	}
	return out, err
}

// EndStanding implements [console.Desk].
func (d consoleDesk) EndStanding(ctx context.Context, who runtime.Principal, id string) error {
	a, err := d.at(who)
	if err != nil {
		return err
	}
	return a.RevokeStanding(ctx, id)
}

// Records implements [console.Desk].
func (d consoleDesk) Records(ctx context.Context, who runtime.Principal, f console.Filter, after string, limit int) (out []console.Record, err error) {
	a, err := d.at(who)
	if err != nil {
		return nil, err
	}
	list, err := a.newest(ctx, RecordQuery{
		Action: runtime.Glob(f.Action), Agent: runtime.Glob(f.Agent), Host: runtime.Glob(f.Host), Kind: f.Kind, Effect: f.Effect, Code: f.Code, RequestID: f.Request, Text: f.Text, Since: f.Since,
	}, after, limit)
	if err != nil {
		return nil, err
	}
	called, err := a.called(ctx)
	for _, r := range list {
		out = append(out, console.Record{Key: placeOf(r), By: called(r.Principal), Line: r.Line})
	}
	return out, err
}

// Tokens implements [console.Desk].
func (d consoleDesk) Tokens(ctx context.Context, who runtime.Principal) (out []console.Token, err error) {
	a, err := d.at(who)
	if err != nil {
		return nil, err
	}
	list, err := a.ListTokens(ctx)
	if err != nil {
		return nil, err
	}
	called, err := a.called(ctx)
	for _, t := range list {
		info := a.Shown(t)
		one := console.Token{ID: info.ID, Agent: info.Agent, Run: info.Run, Creator: called(info.Creator), State: info.State, Roles: info.Roles, Created: info.Created, Expires: info.Expires}
		for _, scope := range info.Scopes {
			one.Scopes = append(one.Scopes, string(scope))
		}
		out = append(out, one)
	}
	return out, err
}

// Revoke implements [console.Desk].
func (d consoleDesk) Revoke(ctx context.Context, who runtime.Principal, id string) error {
	a, err := d.at(who)
	if err != nil {
		return err
	}
	return a.revokeKnown(ctx, id)
}
