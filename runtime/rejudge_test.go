package runtime_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// What stays open is judged as it was when it was opened: scopes, then policy;
// whatever cannot be judged is denied, and nothing is recorded.
func TestWhatStaysOpenIsJudgedAsWhenItWasOpened(t *testing.T) {
	verdict := func(e runtime.Effect) func(runtime.Question) runtime.Verdict {
		return func(runtime.Question) runtime.Verdict { return runtime.Verdict{Effect: e} }
	}
	for name, c := range map[string]struct {
		stages *runtimetest.Stages
		who    runtime.Principal
		want   runtime.Effect
	}{
		"allowed": {&runtimetest.Stages{}, runtimetest.Principal(), runtime.EffectAllow},
		"asked":   {&runtimetest.Stages{OnDecide: ask}, runtimetest.Principal(), runtime.EffectAsk},
		"denied":  {&runtimetest.Stages{OnDecide: verdict(runtime.EffectDeny)}, runtimetest.Principal(), runtime.EffectDeny},
		"nobody":  {&runtimetest.Stages{}, runtime.Principal{}, runtime.EffectDeny},
		"no such action": {&runtimetest.Stages{OnResolve: func(*runtime.Request) (runtime.Resolved, error) {
			return runtime.Resolved{}, errors.New("gone")
		}}, runtimetest.Principal(), runtime.EffectDeny},
		"panic": {&runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict { panic("x") }}, runtimetest.Principal(), runtime.EffectDeny},
	} {
		if got := pipeline(t, c.stages).Judge(&c.who, &runtime.Request{}); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if len(c.stages.Outcomes()) > 0 {
			t.Errorf("%s: recorded", name)
		}
	}
}

// What was judged is what the backend gets: the first of a request that was allowed, and of
// one that has waited, or is sent again, the one that was judged after that.
func TestWhatIsSentIsWhatWasJudgedLast(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(runtime.Question) runtime.Verdict
		first  string
	}{"allowed": {nil, "1"}, "asked": {ask, "2"}} {
		made := 0
		var sent []string
		s := &runtimetest.Stages{OnDecide: c.decide}
		s.OnResolve = func(*runtime.Request) (runtime.Resolved, error) {
			made++
			n := strconv.Itoa(made)
			return runtime.Resolved{Action: runtimetest.Action(), Args: runtime.Args{"n": n}, Built: &runtime.Built{Target: n}}, nil
		}
		s.OnAwait = func(_ context.Context, call *runtime.Call, _ runtime.Verdict) (runtime.Ticket, error) {
			if call.Built != nil {
				t.Errorf("%s: what was judged before the wait is kept", name)
			}
			return runtime.Ticket{ID: "a"}, nil
		}
		s.OnExecute = func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
			for range 2 {
				sent = append(sent, call.Built.Target)
				if call.Args["n"] != call.Built.Target {
					t.Errorf("%s: %v was judged of the arguments %v", name, call.Built.Target, call.Args)
				}
				if err := call.Again(ctx); err != nil {
					t.Fatal(err)
				}
			}
			return runtime.Result{}, nil
		}
		if err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{}); err != nil {
			t.Fatal(err)
		}
		if len(sent) != 2 || sent[0] != c.first || sent[1] != strconv.Itoa(made-1) {
			t.Errorf("%s: sent %v of %d", name, sent, made)
		}
	}
}

// A request that waited for a person, or is sent again, is still the action that was judged:
// one that a reload has removed, replaced or changed gets no credential.
func TestAnActionThatChangedWhileItWaitedIsRefused(t *testing.T) {
	other, changed := runtimetest.Action(), runtimetest.Action()
	other.Ref, changed.Digest = "notes.delete-note", "changed"
	for name, c := range map[string]struct {
		now *runtime.Action
		err error
	}{
		"removed": {nil, errors.New("gone")}, "another": {other, nil}, "changed": {changed, nil},
	} {
		for when, decide := range map[string]func(runtime.Question) runtime.Verdict{"asked": ask, "sent again": nil} {
			waited, executed := false, 0
			s := &runtimetest.Stages{OnDecide: decide}
			s.OnResolve = func(*runtime.Request) (runtime.Resolved, error) {
				if !waited {
					return runtime.Resolved{Action: runtimetest.Action()}, nil
				}
				return runtime.Resolved{Action: c.now}, c.err
			}
			s.OnAwait = func(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) {
				waited = true
				return runtime.Ticket{ID: "apr_1"}, nil
			}
			s.OnExecute = func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
				executed++
				waited = true
				return runtime.Result{}, call.Again(ctx)
			}
			err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
			if err == nil || runtime.AsError(err).Reason != runtime.ReasonPolicyChanged {
				t.Errorf("%s, %s: %v", name, when, err)
			}
			if opened := strings.Count(strings.Join(s.Events(), " "), "credential"); when == "asked" && (executed > 0 || opened > 0) || opened > 1 {
				t.Errorf("%s, %s: executed %d times, credential opened %d times", name, when, executed, opened)
			}
		}
	}
}

// So is one that its body, asked for by a rule that is new, makes another.
func TestABodyThatIsReadAfterTheWaitMakesNoOtherAction(t *testing.T) {
	other, changed := runtimetest.Action(), runtimetest.Action()
	other.Ref, changed.Digest = "notes.delete-note", "changed"
	for name, now := range map[string]*runtime.Action{"same": runtimetest.Action(), "another": other, "changed": changed} {
		waited, read, executed := false, false, 0
		s := &runtimetest.Stages{}
		s.OnDecide = func(runtime.Question) runtime.Verdict {
			switch {
			case !waited:
				return ask(runtime.Question{})
			case !read:
				return runtime.Verdict{NeedBody: true}
			}
			return runtime.Verdict{Effect: runtime.EffectAllow}
		}
		s.OnResolve = func(*runtime.Request) (runtime.Resolved, error) {
			if read {
				return runtime.Resolved{Action: now}, nil
			}
			return runtime.Resolved{Action: runtimetest.Action()}, nil
		}
		s.OnAwait = func(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) {
			waited = true
			return runtime.Ticket{ID: "apr_1"}, nil
		}
		s.OnExecute = func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
			executed++
			return runtime.Result{}, nil
		}
		err := pipeline(t, s).Do(t.Context(), &runtime.Request{Read: func() error { read = waited; return nil }}, &runtimetest.Responder{})
		if same := name == "same"; same != (err == nil && executed == 1) || !same && (err == nil || runtime.AsError(err).Reason != runtime.ReasonPolicyChanged) {
			t.Errorf("%s: executed %d times, %v", name, executed, err)
		}
	}
}

// Before a call is repeated its caller is identified again, and the credential opened anew: a
// token that was revoked meanwhile, or a vault that was locked, ends it.
func TestARepeatedCallNeedsItsCallerAndItsCredential(t *testing.T) {
	gone := &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenRevoked}
	locked := &runtime.Error{Code: runtime.CodeVaultLocked, Reason: runtime.ReasonLocked}
	for _, want := range []*runtime.Error{gone, locked} {
		executing := false
		s := &runtimetest.Stages{}
		s.OnIdentify = func(runtime.Caller) (runtime.Principal, error) {
			if executing && want == gone {
				return runtime.Principal{}, gone
			}
			return runtimetest.Principal(), nil
		}
		s.OnCredential = func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
			if executing && want == locked {
				return runtime.Credential{}, locked
			}
			return runtime.Credential{}, nil
		}
		var again error
		s.OnExecute = func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
			executing = true
			again = call.Again(ctx)
			return runtime.Result{}, nil
		}
		if err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{}); err != nil {
			t.Fatal(err)
		}
		if again == nil || runtime.AsError(again).Reason != want.Reason {
			t.Errorf("%s: %v", want.Reason, again)
		}
	}
}
