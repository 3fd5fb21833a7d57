package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// apiAgent is what the API does for every identified caller.
type apiAgent struct {
	a       *App
	surface runtime.Surface
}

var _ server.Agent = apiAgent{}

// Services implements [server.Agent].
func (s apiAgent) Services(ctx context.Context, who runtime.Principal) ([]server.Item, error) {
	var out []server.Item
	for _, one := range s.a.toolbox().Available(ctx, &who) {
		out = append(out, server.Item{Key: one.Name, Body: one})
	}
	return out, nil
}

// Actions implements [server.Agent].
func (s apiAgent) Actions(_ context.Context, who runtime.Principal, service string) ([]server.Item, error) {
	actions, err := s.a.toolbox().Usable(&who, service)
	var out []server.Item
	for _, one := range actions {
		out = append(out, server.Item{Key: string(one.Ref), Body: one.Describe()})
	}
	return out, err
}

// Action implements [server.Agent]. What services there are is no secret; what the
// caller may do with them is said when it does it.
func (s apiAgent) Action(_ context.Context, _ runtime.Principal, ref string) (any, error) {
	action, err := s.a.Action(ref)
	if err != nil {
		return nil, err
	}
	return action.Describe(), nil
}

// Tools implements [server.Agent].
func (s apiAgent) Tools(_ context.Context, who runtime.Principal, name string) (any, error) {
	text, definitions, err := s.a.toolbox().Show(&who, name)
	return map[string]any{"typescript": text, "definitions": definitions}, err
}

// Search implements [server.Agent].
func (s apiAgent) Search(_ context.Context, who runtime.Principal, query string, limit, offset int) (any, error) {
	return s.a.toolbox().Find(&who, sandbox.Search{Query: query, Limit: limit, Offset: offset})
}

// Advice implements [server.Agent].
func (s apiAgent) Advice(_ context.Context, who runtime.Principal, name string) (any, error) {
	if _, err := s.a.toolbox().Usable(&who, name); err != nil {
		return nil, err
	}
	return s.a.toolbox().Advise(&who, name), nil
}

// Call implements [server.Agent]. Whatever follows the request that the caller asked
// for, a redirect or a page, comes after its answer: so it is that one which counts.
func (s apiAgent) Call(ctx context.Context, c server.Call) (server.Result, error) {
	req := &runtime.Request{
		ID: c.ID, Surface: s.surface, Caller: c.Caller, Action: runtime.Ref(c.Action), Args: c.Input, Hold: c.Hold, Unattended: s.a.run.unattended,
		OnPending: c.Pending, Results: approvalPage,
	}
	result, err := s.call(ctx, c, req)
	if err != nil && !req.Sent {
		err = &server.Undone{Refusal: err}
	}
	return result, err
}

// approvalPage is where a caller sees how an approval stands.
func approvalPage(id string) string { return "/v1/approvals/" + id }

func (s apiAgent) call(ctx context.Context, c server.Call, req *runtime.Request) (server.Result, error) {
	action, err := s.a.Action(c.Action)
	if err != nil { // through the pipeline nevertheless, for the record
		req.Refusal = runtime.AsError(err)
		return server.Result{}, s.a.pipeline.Do(ctx, req, &Answer{})
	}
	req.Action = action.Ref
	if c.Preview {
		return s.preview(ctx, c, action)
	}
	if c.All || c.Max > 0 {
		body, err := s.a.Pages(ctx, s.a.pipeline, req, action, Paging{All: c.All, Max: c.Max, Room: c.Room, Free: server.Large})
		return server.Result{Body: body, Ours: true}, err
	}
	answer, err := s.a.calls(ctx).Do(ctx, s.a.pipeline, req, action, Answer{Room: c.Room, Free: server.Large})
	if err != nil {
		return server.Result{}, err
	}
	result, err := s.result(ctx, action, c.Input, answer)
	return result, undone(err, answer, req)
}

// undone marks a 429 that answers the request itself: it was not done (RFC 6585 section 4),
// unless an attempt before the one that was answered so may have been.
func undone(err error, answer *Answer, req *runtime.Request) error {
	if err != nil && answer.Status == http.StatusTooManyRequests && answer.RequestID == req.ID && !req.Repeated {
		return &server.Undone{Refusal: err}
	}
	return err
}

// preview is what a call would send. Who may not call it is not shown it.
func (s apiAgent) preview(ctx context.Context, c server.Call, action *runtime.Action) (server.Result, error) {
	who, err := s.a.identity.Identify(ctx, c.Caller)
	if err != nil {
		return server.Result{}, err
	}
	if !who.Permits(action.Ref) {
		return server.Result{}, &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonScope, Action: action.Ref, Msg: "the token's scopes do not cover this action",
			Hint: "ask for a token whose scopes cover the action",
		}
	}
	shown, err := s.a.DryRun(action, c.Input)
	if err != nil {
		return server.Result{}, err
	}
	return server.Result{Preview: shown, Text: shown.String()}, nil
}

// result is an answer as it is given to the caller, or the error that it is. What
// the upstream says of an error is the caller's to read.
func (s apiAgent) result(ctx context.Context, action *runtime.Action, args runtime.Args, answer *Answer) (server.Result, error) {
	if err := s.a.UpstreamError(action, args, answer); err != nil {
		return server.Result{}, refusedBy(err, answer)
	}
	body, err := s.a.Filter(ctx, action, answer.Body)
	return server.Result{Body: body, Ours: s.a.Filters(action, answer.Body)}, err
}

// refusedBy is the error of an upstream's answer, with what the upstream said of it.
func refusedBy(err error, answer *Answer) error {
	u := &server.Upstream{Refusal: runtime.AsError(Told(err, answer))}
	if u.Refusal.Err != nil {
		u.Said = u.Refusal.Err.Error()
	}
	return u
}

// apiApproval is an approval, and what a person decides by.
type apiApproval struct {
	Approval
	Text string `json:"text,omitempty"`
}

// Pending reports whether nobody has decided yet.
func (p apiApproval) Pending() bool { return p.State == string(approval.Pending) }

// Approvals implements [server.Agent].
func (s apiAgent) Approvals(ctx context.Context, who runtime.Principal, all bool) ([]server.Item, error) {
	var list []Approval
	if who.May(runtime.RoleOperator) {
		seat, err := s.a.seat(who)
		if err != nil {
			return nil, err
		}
		if list, err = seat.ListApprovals(ctx, all); err != nil {
			return nil, err
		}
	} else {
		states := []approval.State{approval.Pending}
		if all {
			states = nil
		}
		own, err := s.a.approvals.Asked(ctx, who, states, ListLimit)
		if err != nil {
			return nil, err
		}
		for _, p := range own {
			list = append(list, shownApproval(p))
		}
	}
	var out []server.Item
	for _, p := range list {
		out = append(out, server.Item{Key: p.ID, Body: p})
	}
	return out, nil
}

// Approval implements [server.Agent].
func (s apiAgent) Approval(ctx context.Context, who runtime.Principal, id string, full bool) (any, error) {
	if who.May(runtime.RoleOperator) {
		seat, err := s.a.seat(who)
		if err != nil {
			return nil, err
		}
		p, text, err := seat.ShowApproval(ctx, id, full)
		return apiApproval{p, text}, err
	}
	p, err := s.a.approvals.Status(ctx, who, id)
	return apiApproval{Approval: shownApproval(p)}, err
}

// Collect implements [server.Agent]. The wait is for the decision alone: what follows has its
// own limits of time.
func (s apiAgent) Collect(ctx context.Context, request string, caller runtime.Caller, id string, wait time.Duration, room func() error) (server.Result, error) {
	me, p, err := s.a.decidedWithin(ctx, caller, id, wait)
	if err != nil {
		return server.Result{}, err
	}
	if p.State == approval.Pending {
		return server.Result{}, &runtime.Error{
			Code: runtime.CodeApprovalPending, ApprovalID: id, ResultURL: approvalPage(id),
			Msg: "a person has not decided yet", Hint: "ask again",
		}
	}
	answer := &Answer{Room: room, Free: server.Large, RequestID: request}
	action, args, err := s.a.collect(ctx, caller, me, p, answer, func(req *runtime.Request) { req.Results = approvalPage })
	if err != nil {
		return server.Result{}, err
	}
	return s.result(ctx, action, args, answer)
}

// unknownID is what is said of an id that is not there.
func unknownID(what, id string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: fmt.Sprintf("there is no %s %.80q", what, id)}
}
