package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Options are the stages of a [Pipeline]. All of them are required.
type Options struct {
	Identity  Identifier
	Services  Resolver
	Policy    Decider
	Limits    Limiter
	Approvals Approver
	Vault     Vault
	Backends  map[string]Backend
	Trail     Trail
	Clock     func() time.Time
	NewID     func() string
}

// Pipeline is the one way from a request to its effect. It is safe for
// concurrent use.
type Pipeline struct {
	o    Options
	held budget
}

// New refuses Options with a stage missing, by its name.
func New(o Options) (*Pipeline, error) {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Identity", o.Identity == nil},
		{"Services", o.Services == nil},
		{"Policy", o.Policy == nil},
		{"Limits", o.Limits == nil},
		{"Approvals", o.Approvals == nil},
		{"Vault", o.Vault == nil},
		{"Backends", len(o.Backends) == 0},
		{"Trail", o.Trail == nil},
		{"Clock", o.Clock == nil},
		{"NewID", o.NewID == nil},
	} {
		if required.missing {
			return nil, fmt.Errorf("pipeline: Options.%s is missing: no stage is optional", required.name)
		}
	}
	return &Pipeline{o: o}, nil
}

// Do takes one request through all stages. It returns after the last byte of
// the answer and after the outcome was handed to the trail; the error is nil or
// an *Error. When it is not nil and out was started, the answer is incomplete
// and out was told to Abort.
//
// A panic in any stage is a denial: it is recorded and returned as
// CodeInternal.
func (p *Pipeline) Do(ctx context.Context, req *Request, out Responder) (err error) {
	rec, reached := p.begin(req), StageApproval // reached is what a panic interrupts, for the ticket: see finish
	defer func() { err = p.end(rec, req, out, recover(), overdue(ctx, err)) }()

	if err = p.o.Trail.Ready(); err != nil {
		return err
	}
	if rec.Principal, err = p.o.Identity.Identify(ctx, req.Caller); err != nil {
		return at(StageIdentify, err)
	}
	req.Tenant = rec.Principal.Tenant
	if req.Refusal != nil {
		return req.Refusal
	}
	call := &Call{Request: req, Principal: &rec.Principal}
	if err = p.resolve(call, rec); err != nil {
		return at(StageResolve, err)
	}
	if rec.Verdict, err = p.decide(call, rec); err != nil {
		return at(StagePolicy, err)
	}
	if err = refusal(rec.Verdict, rec.Principal.Tenant, req); err != nil {
		return at(StagePolicy, err)
	}
	if err = p.limit(ctx, rec.Verdict.Limits); err != nil {
		return at(StagePolicy, err)
	}
	ask := asks(rec.Verdict, req)
	if ask {
		var release func()
		if release, err = p.spool(&rec.Principal, req); err != nil {
			return at(StageApproval, err)
		}
		defer release()
		call.Built = nil // the wait may be long, and what is sent after it is built and judged anew
	}
	rec.Body = req.BodyMode()
	if err = p.o.Trail.Intent(ctx, rec); err != nil {
		return at(StageAudit, err)
	}
	if ask {
		if rec.Ticket, err = p.o.Approvals.Await(ctx, call, rec.Verdict); err != nil {
			return at(StageApproval, err)
		}
		defer func() { err = p.finish(rec.Ticket, reached, err) }()
		if err = p.rejudge(ctx, call, rec); err != nil {
			return at(StagePolicy, err)
		}
	}
	if err = p.credential(ctx, call, rec); err != nil {
		return at(StageCredential, err)
	}
	reached = StageExecute
	err = p.execute(ctx, call, rec, out)
	reached = ""
	return at(StageExecute, err)
}

// credential asks the vault for what goes out with the call, which a page of another origin
// does not get.
func (p *Pipeline) credential(ctx context.Context, call *Call, rec *Record) error {
	c, err := p.o.Vault.Credential(ctx, rec.Principal.Tenant, rec.Action.Auth)
	if call.Withheld = c.Found() && call.Request.Page() != ""; call.Withheld {
		c = Credential{}
	}
	call.Credential, rec.Version = c, c.Version
	return OfService(err, rec.Principal.Tenant, rec.Action.Service)
}

// execute has the backend do the call. Where that ends in a panic, the request may have been sent.
func (p *Pipeline) execute(ctx context.Context, call *Call, rec *Record, out Responder) (err error) {
	backend := p.o.Backends[rec.Action.Backend]
	if backend == nil {
		return &Error{Code: CodeInternal, Msg: fmt.Sprintf("no backend %q", rec.Action.Backend), Err: ErrNotSent}
	}
	call.Again = func(ctx context.Context) error { return p.again(ctx, call, rec) }
	req := call.Request
	sent := req.Sent
	req.Sent = true
	rec.Result, err = backend.Execute(ctx, call, out)
	req.Sent = sent || err == nil || !rec.Result.Unsent
	req.Repeated = req.Repeated || rec.Result.Repeated
	return err
}

// begin opens the record of a request.
func (p *Pipeline) begin(req *Request) *Record {
	if req.ID == "" {
		req.ID = p.o.NewID()
	}
	if req.Received.IsZero() {
		req.Received = p.o.Clock()
	}
	return &Record{
		ID: req.ID, Surface: req.Surface, Ref: req.Action, Args: req.Args, Query: req.Query,
		Target: req.Target, Body: req.BodyMode(), Received: req.Received,
		Execution: req.Execution, Step: req.Step, Via: req.Caller.Via,
	}
}

// end closes the record and names the request in the error that the caller sees.
func (p *Pipeline) end(rec *Record, req *Request, out Responder, panicked any, err error) error {
	if panicked != nil {
		rec.Panicked = true
		err = &Error{
			Code: CodeInternal, Msg: "kimbap failed to handle the request", Hint: "see the log of the kimbap process",
			Err: fmt.Errorf("panic: %v\n%s", panicked, debug.Stack()),
		}
	}
	rec.Ended = p.o.Clock()
	if err != nil {
		named := *AsError(err)
		named.RequestID, named.Action = rec.ID, rec.Ref
		if named.Rule == "" {
			named.Rule = rec.Verdict.Rule
		}
		if named.ApprovalID == "" {
			named.ApprovalID = rec.Ticket.ID
		}
		if named.Code == CodeApprovalPending && req.Results != nil {
			named.ResultURL = req.Results(named.ApprovalID)
		}
		rec.Err, rec.ApprovalID, err = AsError(recorded(&named)), named.ApprovalID, &named
		defer out.Abort(err) // after the outcome: Abort may panic, as http.ErrAbortHandler does
	} else {
		rec.ApprovalID = rec.Ticket.ID
	}
	p.o.Trail.Outcome(rec)
	return err
}

// resolve finds the action of the call, for the record too.
func (p *Pipeline) resolve(call *Call, rec *Record) error {
	found, err := p.o.Services.Resolve(call.Request)
	if err != nil {
		return err
	}
	call.Action, call.Args, call.Built, call.Others = found.Action, found.Args, found.Built, found.Others
	rec.Action, rec.Args, rec.Body = call.Action, call.Args, call.Request.BodyMode()
	rec.Credential, rec.Target = call.Action.Auth.Ref, targetOf(call.Request, call.Action)
	return nil
}

// decide asks scopes and policy, and where the answer depends on the body, or a person is to
// be asked about one that may hold what nobody is shown, reads it and asks again. A body that
// cannot be read, or parsed, is an error.
func (p *Pipeline) decide(call *Call, rec *Record) (Verdict, error) {
	v := p.strictest(call)
	secret := !v.NeedBody && asks(v, call.Request) && call.HidesSecret()
	if !v.NeedBody && !secret || call.Request.Read == nil {
		return v, nil
	}
	err := call.Request.Read()
	rec.Body = call.Request.BodyMode()
	if err != nil && secret {
		err = unreadSecret(err)
	}
	if err != nil {
		return v, err
	}
	if err := p.resolve(call, rec); err != nil {
		return v, at(StageResolve, err)
	}
	return p.strictest(call), nil
}

// asks reports whether a request needs a person's yes: by its verdict, or since it is collected
// by one, whatever the rules say by now.
func asks(v Verdict, req *Request) bool { return v.Effect == EffectAsk || req.Approval != "" }

// limit takes the request from the buckets of the verdict.
func (p *Pipeline) limit(ctx context.Context, limits []Limit) error {
	if len(limits) == 0 {
		return nil
	}
	return p.o.Limits.Take(ctx, limits, p.o.Clock())
}

// strictest is the verdict on the call and on whatever a server could take it for.
func (p *Pipeline) strictest(call *Call) Verdict {
	v := p.verdict(call.Principal, call.Request, call.Action, call.Args)
	if len(call.Others) == 0 {
		return v
	}
	return Strictest(v, call.Others, func(r Reading) Verdict { return p.verdict(call.Principal, r.Request, r.Action, r.Args) })
}

// verdict asks the principal's scopes, then policy, about one reading of a request.
func (p *Pipeline) verdict(who *Principal, req *Request, action *Action, args Args) Verdict {
	if v := who.Beyond(action.Ref); v != nil {
		return *v
	}
	if len(req.Within) > 0 && !slices.ContainsFunc(req.Within, func(g Glob) bool { return g.Match(string(action.Ref)) }) {
		return Verdict{Effect: EffectDeny, Rule: RuleScope, Reason: "what this execution may use does not cover this action", Fix: "whoever started it chose the list"}
	}
	return p.o.Policy.Decide(Question{Principal: who, Action: action, Args: args, Request: req, Now: p.o.Clock()})
}

// Judge says what scopes and policy say now of a request like one that Do has
// let through, for what has stayed open since. Nothing is recorded and nothing
// happens; what cannot be resolved, or panics, is denied.
func (p *Pipeline) Judge(who *Principal, req *Request) (effect Effect) {
	defer func() {
		if recover() != nil {
			effect = EffectDeny
		}
	}()
	found, err := p.o.Services.Resolve(req)
	if err != nil {
		return EffectDeny
	}
	return p.strictest(&Call{Request: req, Principal: who, Action: found.Action, Args: found.Args, Others: found.Others}).Effect
}

// finish closes a consumed ticket, in a context that a caller who has gone
// cannot cancel. Reached is the stage that has not returned, "" when all have. An end
// that cannot be recorded is no error of the request: its answer is complete, and told
// otherwise its caller would send it again.
func (p *Pipeline) finish(ticket Ticket, reached Stage, err error) error {
	if reached != "" && err == nil { // a panic is on its way up
		err = &Error{Code: CodeInternal, Stage: reached, Msg: "the execution ended in a panic"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.o.Approvals.Finish(ctx, ticket, recorded(err)) // the approver says so itself, and it stays executing
	return err
}

// refusal is the error of a verdict that does not let the request go on.
func refusal(v Verdict, of Tenant, req *Request) error {
	switch {
	case v.Effect == EffectAllow:
		return nil
	case v.Effect == EffectAsk && req.Page() != "":
		return ofPage(req.Page(), "people are asked for programs alone (rule "+v.Rule+")")
	case v.Effect == EffectAsk && !req.Unattended:
		return nil
	case v.Effect == EffectAsk:
		return &Error{
			Code: CodeForbidden, Reason: ReasonUnattended,
			Msg:  fmt.Sprintf("this action needs a person's approval (rule %s) and this run is unattended", v.Rule),
			Hint: "run it without --unattended, or add a policy rule that allows it",
		}
	}
	e := &Error{
		Code: CodeForbidden, Msg: fmt.Sprintf("policy denies this action (rule %s)", v.Rule),
		Hint: "do not send it again; the owner of policy.yaml sees why with " + Command(of, "explain "+req.ID),
	}
	switch {
	case v.Rule == RuleScope:
		e.Reason = ReasonScope
		e.Hint = "ask for a token whose scopes cover the action"
	case v.NeedBody:
		e.Reason, e.Msg = ReasonCondition, e.Msg+": it depends on a body that cannot be read here"
	case v.Failed:
		e.Reason = ReasonCondition
		e.Hint = "the condition of a rule failed, and what cannot be judged is denied; send what it asks for, or tell the owner of policy.yaml"
	}
	if req.Action == ActionTunnel && v.ByDefault() {
		e.Hint = fmt.Sprintf("raw tunnels need a rule of their own; the owner can open this one in policy.yaml, under rules: {name: raw-tunnel, match: {action: %s, host: %q}, then: allow}", ActionTunnel, req.Target.Authority)
	}
	if v.Reason != "" {
		e.Msg += ": " + v.Reason
	}
	if v.Fix != "" {
		e.Hint = v.Fix
	}
	return e
}

// at says which stage an error comes from, unless the stage has said so itself.
func at(stage Stage, err error) error {
	if err == nil {
		return nil
	}
	e := *AsError(err)
	if e.Stage == "" {
		e.Stage = stage
	}
	if e.Code == CodeInternal && errors.Is(err, context.Canceled) {
		e.Code, e.Msg, e.Hint = CodeCanceled, "the caller went away", ""
	}
	return &e
}

// overdue is the error of a stage that gave up because the caller's time was
// over: that, and not what the stage could not do, is why.
func overdue(ctx context.Context, err error) error {
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	switch CodeOf(err) {
	case CodeInternal, CodeVaultLocked, CodeStorageBusy, CodeAuditUnavailable:
	default:
		return err // it says so itself
	}
	return &Error{
		Code: CodeTimeout, Stage: AsError(err).Stage, Msg: "the time given for the call was over before it was made",
		Hint: "give it more time", Err: err,
	}
}

// targetOf is where a request goes, for the record: a built one has no target
// of its own yet.
func targetOf(req *Request, action *Action) Target {
	if req.Target.Authority != "" || action.HTTP == nil || len(action.HTTP.Authorities) == 0 {
		return req.Target
	}
	scheme, _, _ := strings.Cut(action.HTTP.BaseURL, "://")
	return Target{Scheme: scheme, Authority: action.HTTP.Authorities[0], Method: action.HTTP.Method}
}
