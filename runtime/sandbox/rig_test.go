package sandbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// bench is a runner over doubles: programs for scripts, and actions in memory.
type bench struct {
	t       *testing.T
	runner  *sandbox.Runner
	o       sandbox.Options
	program program
	store   *memory
	clock   time.Time
	alive   []string

	mu        sync.Mutex
	made      []string // invocations that had an effect
	asked     map[string]string
	decisions map[string]error // of questions; absent: open
	changed   chan struct{}
	events    []sandbox.Event
	begun     map[string][]sandbox.Begun
	invoke    func(ctx context.Context, call sandbox.Invocation) sandbox.Answer // instead of the usual
}

func newBench(t *testing.T, p program) *bench {
	b := &bench{
		t: t, program: p, store: &memory{rows: map[string]journal.Execution{}, calls: map[string]map[int]journal.Call{}},
		asked: map[string]string{}, decisions: map[string]error{}, changed: make(chan struct{}), begun: map[string][]sandbox.Begun{},
		clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	b.o = sandbox.Options{
		Start:    func(context.Context, sandbox.Limits) (sandbox.Worker, error) { return start(b.program), nil },
		Identify: b.identify, Catalog: func() sandbox.Catalog { return notes() }, Invoke: b.answer, Approval: b.approval,
		Record: b.record, Begun: b.begunOf, Lost: b.lostBefore, Store: b.store, Sealer: b.store, Clock: func() time.Time { return b.clock },
		NewID: func() string { return runtime.NewID("exe", time.Now()) }, Process: func() string { return "1:a" }, Alive: func(h string) bool { return h == "1:a" },
	}
	b.restart("1:a")
	return b
}

// restart is another process over the same store.
func (b *bench) restart(process string) {
	b.t.Helper()
	o := b.o
	b.alive = []string{process}
	o.Process, o.Alive = func() string { return process }, func(h string) bool { return slices.Contains(b.alive, h) }
	runner, err := sandbox.New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.runner = runner
	b.t.Cleanup(runner.Dispose)
}

func (b *bench) execute(s sandbox.Script) sandbox.Result {
	b.t.Helper()
	s.Caller.Token = runtime.NewSecret("me")
	result, err := b.runner.Execute(b.t.Context(), s)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func (b *bench) resume(id string, wait time.Duration) sandbox.Result {
	b.t.Helper()
	result, err := b.runner.Resume(b.t.Context(), sandbox.Resumption{ID: id, Caller: runtime.Caller{Token: runtime.NewSecret("me")}, Wait: wait})
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

func (b *bench) identify(_ context.Context, caller runtime.Caller) (runtime.Principal, error) {
	if caller.Token.Empty() {
		return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Msg: "who are you?"}
	}
	return runtime.Principal{ID: "token:" + caller.Token.Reveal(), Kind: runtime.KindAgent, Tenant: runtime.DefaultTenant, Scopes: []runtime.Scope{"notes.*"}}, nil
}

// answer has the effect, unless a person must be asked.
func (b *bench) answer(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
	if b.invoke != nil {
		return b.invoke(ctx, call)
	}
	if call.Refusal != nil {
		return sandbox.Answer{Err: call.Refusal}
	}
	args, _ := json.Marshal(call.Args)
	what := string(call.Ref) + string(args)
	b.mu.Lock()
	defer b.mu.Unlock()
	if call.Action.Risk == runtime.RiskHigh {
		id, open := b.asked[what]
		if !open {
			id = fmt.Sprint("apr_", len(b.asked)+1)
			b.asked[what] = id
		}
		if _, decided := b.decisions[id]; !decided {
			return sandbox.Answer{
				Err:     &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: id, Rule: "ask", Msg: "a person must decide"},
				Expires: b.clock.Add(time.Hour),
			}
		}
		delete(b.asked, what) // a yes is used once
	}
	b.made = append(b.made, what)
	return sandbox.Answer{Value: `{"did":` + string(args) + `}`, Status: 200}
}

func (b *bench) approval(ctx context.Context, _ runtime.Caller, _ runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
	for {
		b.mu.Lock()
		err, decided := b.decisions[id]
		changed := b.changed
		b.mu.Unlock()
		if decided || wait == sandbox.Now {
			return !decided, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
}

// decide is a person.
func (b *bench) decide(id string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.decisions[id] = err
	close(b.changed)
	b.changed = make(chan struct{})
}

func (b *bench) record(_ context.Context, e sandbox.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e)
	return nil
}

// lostBefore is what the trail has of what was given up.
func (b *bench) lostBefore(_ context.Context, _ runtime.Tenant, id string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.events, func(e sandbox.Event) bool { return e.Kind == "exec.lost" && e.Execution == id }), nil
}

func (b *bench) begunOf(_ context.Context, _ runtime.Tenant, id string) ([]sandbox.Begun, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun[id], nil
}

// effects are the invocations so far.
func (b *bench) effects() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.made)
}
