package runtime_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestPolicyIsAskedAgainAfterApproval(t *testing.T) {
	asked := 0
	s := &runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict {
		if asked++; asked == 1 {
			return runtime.Verdict{Effect: runtime.EffectAsk, Rule: "ask-first"}
		}
		return runtime.Verdict{Effect: runtime.EffectDeny, Rule: "new-rule"}
	}}
	err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
	if e := runtime.AsError(err); e.Code != runtime.CodeForbidden || e.Reason != runtime.ReasonPolicyChanged || e.ApprovalID != "apr_1" {
		t.Errorf("error %+v", e)
	}
	if got, want := strings.Join(s.Events(), " "), upToPolicy+" intent await identify resolve decide finish outcome"; got != want {
		t.Errorf("stages\n  %s, want\n  %s", got, want)
	}
}

// A backend that waits and repeats a call asks first: what let it through may not
// be so any more.
func TestARepeatedCallIsJudgedAgain(t *testing.T) {
	allow := runtime.Verdict{Effect: runtime.EffectAllow, Rule: "r"}
	ask := runtime.Verdict{Effect: runtime.EffectAsk, Rule: "r"}
	for name, c := range map[string]struct {
		first, then runtime.Verdict
		may         bool
	}{
		"allowed still": {allow, allow, true}, "denied now": {allow, runtime.Verdict{Effect: runtime.EffectDeny}, false},
		"to be asked now": {allow, ask, false}, "approved": {ask, ask, true},
		"approved, denied now": {ask, runtime.Verdict{Effect: runtime.EffectDeny, Rule: "r"}, false},
		"more people now":      {ask, runtime.Verdict{Effect: runtime.EffectAsk, Terms: runtime.ApprovalTerms{Count: 2}}, false},
	} {
		executing := false
		s := &runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict {
			if executing {
				return c.then
			}
			return c.first
		}}
		var again error
		s.OnExecute = func(ctx context.Context, call *runtime.Call, _ runtime.Responder) (runtime.Result, error) {
			executing = true
			again = call.Again(ctx)
			return runtime.Result{Status: 200}, nil
		}
		if err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (again == nil) != c.may || again != nil && runtime.AsError(again).Reason != runtime.ReasonPolicyChanged {
			t.Errorf("%s: %v", name, again)
		}
	}
}

// What is collected of a yes uses that yes up, also where the rules do not ask any more: else
// it could be done once more with it.
func TestACollectedYesIsUsedUpThoughNobodyAsksAnyMore(t *testing.T) {
	s := &runtimetest.Stages{}
	s.OnAwait = func(_ context.Context, call *runtime.Call, v runtime.Verdict) (runtime.Ticket, error) {
		if call.Request.Approval != "apr_7" || v.Effect != runtime.EffectAllow {
			t.Errorf("collected %q, %+v", call.Request.Approval, v)
		}
		return runtime.Ticket{ID: "apr_7"}, nil
	}
	if err := pipeline(t, s).Do(t.Context(), &runtime.Request{Approval: "apr_7"}, &runtimetest.Responder{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Events(), " "); got != askedWay {
		t.Errorf("stages %s, want %s", got, askedWay)
	}
}

// A yes that was given under one rule's terms is none under another's.
func TestStricterTermsNeedAnotherYes(t *testing.T) {
	for name, c := range map[string]struct {
		terms runtime.ApprovalTerms
		sent  bool
	}{
		"two people": {runtime.ApprovalTerms{Count: 2}, false}, "certain people": {runtime.ApprovalTerms{By: []string{"role:finance"}}, false},
		"a PIN": {runtime.ApprovalTerms{Presence: "pin"}, false}, "a passkey": {runtime.ApprovalTerms{Presence: "passkey"}, false},
		"the same, spelled out": {runtime.ApprovalTerms{Count: 1, Presence: "none"}, true},
	} {
		asked := 0
		s := &runtimetest.Stages{OnDecide: func(q runtime.Question) runtime.Verdict {
			v := ask(q)
			if asked++; asked > 1 {
				v.Terms = c.terms
			}
			return v
		}}
		err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
		if (err == nil) != c.sent || err != nil && runtime.AsError(err).Reason != runtime.ReasonPolicyChanged {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A hold can be longer than a token's life: a yes is not for a caller who has
// been turned away since.
func TestCallerIsIdentifiedAgainAfterApproval(t *testing.T) {
	asked := 0
	s := &runtimetest.Stages{OnDecide: ask, OnIdentify: func(runtime.Caller) (runtime.Principal, error) {
		if asked++; asked > 1 {
			return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonTokenRevoked}
		}
		return runtimetest.Principal(), nil
	}}
	err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
	if runtime.CodeOf(err) != runtime.CodeUnauthenticated || runtime.AsError(err).Reason != runtime.ReasonTokenRevoked {
		t.Errorf("a revoked token used its approval: %v", err)
	}
	if got, want := strings.Join(s.Events(), " "), upToPolicy+" intent await identify finish outcome"; got != want {
		t.Errorf("stages %s, want %s", got, want)
	}
}

func TestApprovalIsBoundToTheWholeBody(t *testing.T) {
	const limit = 16 << 20
	for _, c := range []struct {
		name   string
		size   int
		length int64
		code   runtime.Code
	}{
		{"at the limit", limit, limit, ""},
		{"announced over it", limit + 1, limit + 1, runtime.CodeInvalidInput},
		{"over it, unannounced", limit + 1, -1, runtime.CodeInvalidInput},
	} {
		body := bytes.Repeat([]byte("b"), c.size)
		s := &runtimetest.Stages{OnDecide: ask}
		s.OnAwait = func(_ context.Context, call *runtime.Call, _ runtime.Verdict) (runtime.Ticket, error) {
			if got, whole := call.Request.Raw.Buffered(); !whole || !bytes.Equal(got, body) {
				t.Errorf("%s: the approver sees %d bytes, whole %v", c.name, len(got), whole)
			}
			return runtime.Ticket{ID: "apr_1"}, nil
		}
		req := &runtime.Request{Raw: &runtime.Raw{Body: bytes.NewReader(body), ContentLength: c.length}}
		err := pipeline(t, s).Do(t.Context(), req, &runtimetest.Responder{})
		if runtime.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.code != "" && (runtime.AsError(err).Status() != http.StatusRequestEntityTooLarge || len(s.Intents()) != 0) {
			t.Errorf("%s: status %d, %d intents", c.name, runtime.AsError(err).Status(), len(s.Intents()))
		}
		if c.code == "" && s.Intents()[0].Body != "read" {
			t.Errorf("%s: body %q", c.name, s.Intents()[0].Body)
		}
	}
}

// Services may have changed while a request waited: what resolves it again is told.
func TestARequestThatWaitedIsResolvedAsSuch(t *testing.T) {
	var waited []bool
	s := &runtimetest.Stages{OnDecide: ask}
	s.OnResolve = func(req *runtime.Request) (runtime.Resolved, error) {
		waited = append(waited, req.Waited)
		return runtime.Resolved{Action: runtimetest.Action()}, nil
	}
	if err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{}); err != nil {
		t.Fatal(err)
	}
	if len(waited) != 2 || waited[0] || !waited[1] {
		t.Errorf("resolved as waited: %v", waited)
	}
}

// A person is shown a request before its trailers have been thought of: they come behind
// what was read, and the yes is bound to that.
func TestTrailersAreInNoApproval(t *testing.T) {
	for name, c := range map[string]struct {
		verdict func(runtime.Question) runtime.Verdict
		trailer http.Header
		refused bool
	}{
		"asked": {ask, http.Header{"X-Amount": {"9000"}}, true}, "asked, without": {ask, nil, false},
		"allowed": {func(runtime.Question) runtime.Verdict { return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "r"} }, http.Header{"X-Amount": {"9000"}}, false},
	} {
		raw := &runtime.Raw{Body: strings.NewReader("hi"), ContentLength: -1, Trailer: func() http.Header { return c.trailer }}
		err := pipeline(t, &runtimetest.Stages{OnDecide: c.verdict}).Do(t.Context(), &runtime.Request{Raw: raw}, &runtimetest.Responder{})
		if (err != nil) != c.refused || err != nil && runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s: %v", name, err)
		}
	}
}
