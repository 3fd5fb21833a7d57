// Package runtimetest holds doubles for the stages of the pipeline: each writes
// its name into a common list when it is called, so that a test can say what
// happened in which order and what did not happen.
//
// It is imported by tests only. Start reading at [Stages].
package runtimetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Stages are all stages of a pipeline in one value. The zero Stages lets
// everything through: a known caller, an action "test.act", allowed, a stored
// credential, a backend that answers 200 "ok". Set the func of a stage to make
// it behave otherwise; set it before use. It is safe for concurrent use.
type Stages struct {
	OnReady      func() error
	OnIdentify   func(runtime.Caller) (runtime.Principal, error)
	OnResolve    func(*runtime.Request) (runtime.Resolved, error)
	OnDecide     func(runtime.Question) runtime.Verdict
	OnTake       func(context.Context, []runtime.Limit, time.Time) error
	OnIntent     func(context.Context, *runtime.Record) error
	OnAwait      func(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error)
	OnFinish     func(context.Context, runtime.Ticket, error) error
	OnCredential func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error)
	OnExecute    func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error)
	OnOutcome    func(*runtime.Record)

	mu       sync.Mutex
	events   []string
	intents  []runtime.Record
	outcomes []runtime.Record
}

var (
	_ runtime.Identifier = (*Stages)(nil)
	_ runtime.Resolver   = (*Stages)(nil)
	_ runtime.Decider    = (*Stages)(nil)
	_ runtime.Limiter    = (*Stages)(nil)
	_ runtime.Approver   = (*Stages)(nil)
	_ runtime.Vault      = (*Stages)(nil)
	_ runtime.Backend    = (*Stages)(nil)
	_ runtime.Trail      = (*Stages)(nil)
)

// Options returns pipeline options whose every stage is s, with a clock of its
// own and ids that count: req_1, req_2.
func (s *Stages) Options() runtime.Options {
	clock, ids := NewClock(), 0
	var mu sync.Mutex
	return runtime.Options{
		Identity: s, Services: s, Policy: s, Limits: s, Approvals: s, Vault: s,
		Backends: map[string]runtime.Backend{"test": s}, Trail: s, Clock: clock.Now,
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return fmt.Sprintf("req_%d", ids)
		},
	}
}

// Action returns the action that the zero Stages resolves to.
func Action() *runtime.Action {
	return &runtime.Action{
		Ref: "test.act", Service: "test", Name: "act", Risk: runtime.RiskLow, Backend: "test",
		Digest: "d1", Auth: &runtime.Auth{Type: runtime.AuthBearer, Ref: "test"},
	}
}

// Principal returns the caller that the zero Stages identifies.
func Principal() runtime.Principal {
	return runtime.Principal{
		ID: "local:1000", Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Agent: "local", Scopes: []runtime.Scope{"*"},
	}
}

func (s *Stages) note(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
}

// Events returns the names of the calls so far: ready, identify, resolve,
// decide, take, intent, await, credential, execute, finish, outcome.
func (s *Stages) Events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// Intents returns the records as they were when they were made durable.
func (s *Stages) Intents() []runtime.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.intents)
}

// Outcomes returns the records as they were at the end of their requests.
func (s *Stages) Outcomes() []runtime.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.outcomes)
}

// Ready implements [runtime.Trail].
func (s *Stages) Ready() error {
	s.note("ready")
	if s.OnReady != nil {
		return s.OnReady()
	}
	return nil
}

// Identify implements [runtime.Identifier].
func (s *Stages) Identify(_ context.Context, caller runtime.Caller) (runtime.Principal, error) {
	s.note("identify")
	if s.OnIdentify != nil {
		return s.OnIdentify(caller)
	}
	return Principal(), nil
}

// Resolve implements [runtime.Resolver].
func (s *Stages) Resolve(req *runtime.Request) (runtime.Resolved, error) {
	s.note("resolve")
	if s.OnResolve != nil {
		return s.OnResolve(req)
	}
	return runtime.Resolved{Action: Action(), Args: req.Args}, nil
}

// Decide implements [runtime.Decider].
func (s *Stages) Decide(q runtime.Question) runtime.Verdict {
	s.note("decide")
	if s.OnDecide != nil {
		return s.OnDecide(q)
	}
	return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "default:low"}
}

// Take implements [runtime.Limiter].
func (s *Stages) Take(ctx context.Context, limits []runtime.Limit, now time.Time) error {
	s.note("take")
	if s.OnTake != nil {
		return s.OnTake(ctx, limits, now)
	}
	return nil
}

// Intent implements [runtime.Trail].
func (s *Stages) Intent(ctx context.Context, r *runtime.Record) error {
	s.note("intent")
	if s.OnIntent != nil {
		if err := s.OnIntent(ctx, r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intents = append(s.intents, *r)
	r.Sequence = uint64(len(s.intents))
	return nil
}

// Await implements [runtime.Approver].
func (s *Stages) Await(ctx context.Context, call *runtime.Call, v runtime.Verdict) (runtime.Ticket, error) {
	s.note("await")
	if s.OnAwait != nil {
		return s.OnAwait(ctx, call, v)
	}
	return runtime.Ticket{ID: "apr_1", By: "local:1000", Presence: "none"}, nil
}

// Finish implements [runtime.Approver].
func (s *Stages) Finish(ctx context.Context, ticket runtime.Ticket, err error) error {
	s.note("finish")
	if s.OnFinish != nil {
		return s.OnFinish(ctx, ticket, err)
	}
	return nil
}

// Credential implements [runtime.Vault].
func (s *Stages) Credential(_ context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	s.note("credential")
	if s.OnCredential != nil {
		return s.OnCredential(tenant, auth)
	}
	return runtime.Credential{Name: auth.Ref, Version: 3, Value: runtime.NewSecret("stored-secret-value")}, nil
}

// Execute implements [runtime.Backend].
func (s *Stages) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	s.note("execute")
	if s.OnExecute != nil {
		return s.OnExecute(ctx, call, out)
	}
	if err := out.Start(200, nil); err != nil {
		return runtime.Result{}, err
	}
	n, err := out.Write([]byte("ok"))
	return runtime.Result{Status: 200, BytesOut: int64(n), Used: runtime.CredentialStored}, err
}

// Outcome implements [runtime.Trail].
func (s *Stages) Outcome(r *runtime.Record) {
	s.note("outcome")
	s.mu.Lock()
	s.outcomes = append(s.outcomes, *r)
	s.mu.Unlock()
	if s.OnOutcome != nil {
		s.OnOutcome(r)
	}
}
