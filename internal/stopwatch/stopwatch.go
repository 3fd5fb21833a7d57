// Package stopwatch lets each stage of a pipeline say what it said and how long it took
// (`kimbap call --trace`).
//
// It changes no answer of a stage and sees no secret: of a credential it tells the name.
// Start reading at [Stages].
package stopwatch

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Step is one stage of a traced request.
type Step struct {
	Stage  runtime.Stage `json:"stage"`
	Micros int64         `json:"us"`
	Said   string        `json:"said"`
}

// Stages returns the same stages, each of which also reports what it said and how long
// it took. Limits are not reported. A pipeline over them serves one request at a time.
func Stages(o runtime.Options, report func(Step)) runtime.Options {
	t := tracer{report}
	backends := map[string]runtime.Backend{}
	for name, b := range o.Backends {
		backends[name] = tracedBackend{t, b}
	}
	o.Identity, o.Services, o.Policy = tracedIdentity{t, o.Identity}, tracedServices{t, o.Services}, tracedPolicy{t, o.Policy}
	o.Approvals, o.Vault, o.Trail = tracedApprovals{t, o.Approvals}, tracedVault{t, o.Vault}, tracedTrail{t, o.Trail}
	o.Backends = backends
	return o
}

type tracer struct{ report func(Step) }

// done reports a stage; an error speaks for itself.
func (t tracer) done(stage runtime.Stage, start time.Time, said string, err error) {
	if err != nil {
		said = string(runtime.CodeOf(err)) + ": " + runtime.AsError(err).Msg
	}
	t.report(Step{Stage: stage, Micros: time.Since(start).Microseconds(), Said: said})
}

type tracedIdentity struct {
	tracer
	next runtime.Identifier
}

func (t tracedIdentity) Identify(ctx context.Context, c runtime.Caller) (runtime.Principal, error) {
	start := time.Now()
	p, err := t.next.Identify(ctx, c)
	t.done(runtime.StageIdentify, start, p.ID+" (agent "+p.Agent+")", err)
	return p, err
}

type tracedServices struct {
	tracer
	next runtime.Resolver
}

func (t tracedServices) Resolve(req *runtime.Request) (runtime.Resolved, error) {
	start := time.Now()
	found, err := t.next.Resolve(req)
	said := ""
	if err == nil {
		said = string(found.Action.Ref) + ", risk " + string(found.Action.Risk)
	}
	t.done(runtime.StageResolve, start, said, err)
	return found, err
}

type tracedPolicy struct {
	tracer
	next runtime.Decider
}

func (t tracedPolicy) Decide(q runtime.Question) runtime.Verdict {
	start := time.Now()
	v := t.next.Decide(q)
	t.done(runtime.StagePolicy, start, string(v.Effect)+" by "+v.Rule, nil)
	return v
}

type tracedApprovals struct {
	tracer
	next runtime.Approver
}

func (t tracedApprovals) Await(ctx context.Context, call *runtime.Call, v runtime.Verdict) (runtime.Ticket, error) {
	start := time.Now()
	ticket, err := t.next.Await(ctx, call, v)
	t.done(runtime.StageApproval, start, "accepted by "+ticket.By, err)
	return ticket, err
}

func (t tracedApprovals) Finish(ctx context.Context, ticket runtime.Ticket, err error) error {
	return t.next.Finish(ctx, ticket, err)
}

type tracedVault struct {
	tracer
	next runtime.Vault
}

func (t tracedVault) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	start := time.Now()
	c, err := t.next.Credential(ctx, tenant, auth)
	said := "none stored"
	if c.Found() {
		said = c.Name
	} else if auth.Ref == "" {
		said = "none needed"
	}
	t.done(runtime.StageCredential, start, said, err)
	return c, err
}

type tracedBackend struct {
	tracer
	next runtime.Backend
}

func (t tracedBackend) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	start := time.Now()
	r, err := t.next.Execute(ctx, call, out)
	t.done(runtime.StageExecute, start, runtime.StatusText(r.Status), err)
	return r, err
}

type tracedTrail struct {
	tracer
	next runtime.Trail
}

func (t tracedTrail) Ready() error { return t.next.Ready() }

func (t tracedTrail) Intent(ctx context.Context, r *runtime.Record) error {
	start := time.Now()
	err := t.next.Intent(ctx, r)
	t.done(runtime.StageAudit, start, "intent durable", err)
	return err
}

func (t tracedTrail) Outcome(r *runtime.Record) {
	start := time.Now()
	t.next.Outcome(r)
	t.done(runtime.StageAudit, start, "outcome queued", nil)
}
