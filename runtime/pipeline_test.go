package runtime_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func pipeline(t *testing.T, s *runtimetest.Stages) *runtime.Pipeline {
	t.Helper()
	p, err := runtime.New(s.Options())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A request over a limit of its rules leaves no intent and sends nothing; the
// record says why.
func TestALimitRefusesBeforeTheIntent(t *testing.T) {
	limits := []runtime.Limit{{Rule: "polite", Bucket: "b", Every: time.Second, Burst: 1}}
	var taken []runtime.Limit
	s := &runtimetest.Stages{
		OnDecide: func(runtime.Question) runtime.Verdict {
			return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "default:low", Limits: limits}
		},
		OnTake: func(_ context.Context, l []runtime.Limit, _ time.Time) error {
			taken = l
			return &runtime.Error{Code: runtime.CodeRateLimited, Reason: runtime.ReasonOverLimit, Rule: "polite", RetryAfter: time.Second}
		},
	}
	p, err := runtime.New(s.Options())
	if err != nil {
		t.Fatal(err)
	}
	err = p.Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
	e := runtime.AsError(err)
	if e.Code != runtime.CodeRateLimited || e.Rule != "polite" || e.Status() != 429 || e.Stage != runtime.StagePolicy {
		t.Errorf("%+v", e)
	}
	if want := []string{"ready", "identify", "resolve", "decide", "take", "outcome"}; !slices.Equal(s.Events(), want) {
		t.Errorf("%v", s.Events())
	}
	if len(taken) != 1 || taken[0] != limits[0] {
		t.Errorf("%+v", taken)
	}
	if o := s.Outcomes(); len(o) != 1 || o[0].Err.Code != runtime.CodeRateLimited || o[0].Verdict.Effect != runtime.EffectAllow {
		t.Errorf("%+v", o)
	}
}

// What depends on the body is asked again once it was read; a body that cannot
// be read, and a second doubt, are denials.
func TestABodyIsReadWhenPolicyAsksForIt(t *testing.T) {
	unread := errors.New("not read")
	for _, c := range []struct {
		name   string
		read   func(*runtime.Request) error
		second runtime.Verdict
		code   runtime.Code
		reason runtime.Reason
	}{
		{"allowed", func(*runtime.Request) error { return nil }, runtime.Verdict{Effect: runtime.EffectAllow}, "", ""},
		{"denied", func(*runtime.Request) error { return nil }, runtime.Verdict{Effect: runtime.EffectDeny}, runtime.CodeForbidden, ""},
		{"still in doubt", func(*runtime.Request) error { return nil }, runtime.Verdict{NeedBody: true, Rule: "r"}, runtime.CodeForbidden, runtime.ReasonCondition},
		{"unreadable", func(*runtime.Request) error { return unread }, runtime.Verdict{Effect: runtime.EffectAllow}, runtime.CodeInternal, ""},
		{"nothing to read it with", nil, runtime.Verdict{Effect: runtime.EffectAllow}, runtime.CodeForbidden, runtime.ReasonCondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := &runtime.Request{Args: runtime.Args{"head": "1"}}
			if c.read != nil {
				req.Read = func() error {
					req.Args = runtime.Args{"head": "1", "body": "2"}
					return c.read(req)
				}
			}
			asked := 0
			s := &runtimetest.Stages{OnDecide: func(q runtime.Question) runtime.Verdict {
				if asked++; asked == 1 {
					return runtime.Verdict{NeedBody: true, Rule: "r"}
				}
				if q.Args["body"] != "2" {
					t.Errorf("asked again without the body: %v", q.Args)
				}
				return c.second
			}}
			p, err := runtime.New(s.Options())
			if err != nil {
				t.Fatal(err)
			}
			e := p.Do(t.Context(), req, &runtimetest.Responder{})
			if runtime.CodeOf(e) != c.code || e != nil && runtime.AsError(e).Reason != c.reason {
				t.Errorf("%v", e)
			}
			if sent := slices.Contains(s.Events(), "execute"); sent != (c.code == "") {
				t.Errorf("%v", s.Events())
			}
			if o := s.Outcomes(); c.code == "" && o[0].Args["body"] != "2" {
				t.Errorf("the record has %v", o[0].Args)
			}
		})
	}
}

// What a body makes of a request counts: where that is nothing, or nothing that may be, what
// the head alone said is no answer. A body that nobody asks for is left alone.
func TestABodyThatMakesNothingOfARequestIsARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		decide func(runtime.Question) runtime.Verdict
		code   runtime.Code
		read   int
	}{
		"asked for":     {func(runtime.Question) runtime.Verdict { return runtime.Verdict{NeedBody: true, Rule: "r"} }, runtime.CodeInvalidInput, 1},
		"not asked for": {nil, "", 0},
	} {
		read := 0
		s := &runtimetest.Stages{}
		s.OnResolve = func(*runtime.Request) (runtime.Resolved, error) {
			if read > 0 {
				return runtime.Resolved{}, &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "two members of one name"}
			}
			return runtime.Resolved{Action: runtimetest.Action()}, nil
		}
		s.OnDecide = func(q runtime.Question) runtime.Verdict {
			if c.decide == nil || read > 0 {
				return runtime.Verdict{Effect: runtime.EffectAllow, Rule: "default:low"}
			}
			return c.decide(q)
		}
		err := pipeline(t, s).Do(t.Context(), &runtime.Request{Read: func() error { read++; return nil }}, &runtimetest.Responder{})
		if runtime.CodeOf(err) != c.code || read != c.read || slices.Contains(s.Events(), "execute") != (c.code == "") {
			t.Errorf("%s: %v, read %d times, %v", name, err, read, s.Events())
		}
	}
}

func TestNewRefusesEachMissingStageByName(t *testing.T) {
	fields := reflect.TypeFor[runtime.Options]()
	for i := range fields.NumField() {
		o := new(runtimetest.Stages).Options()
		reflect.ValueOf(&o).Elem().Field(i).SetZero()
		name := fields.Field(i).Name
		if _, err := runtime.New(o); err == nil || !strings.Contains(err.Error(), "Options."+name+" ") {
			t.Errorf("New without %s: %v", name, err)
		}
	}
}

// The stages of a request, in order, as the doubles name them.
const (
	upToPolicy = "ready identify resolve decide"
	wholeWay   = upToPolicy + " intent credential execute outcome"
	askedWay   = upToPolicy + " intent await identify resolve decide credential execute finish outcome"
)

func ask(runtime.Question) runtime.Verdict {
	return runtime.Verdict{Effect: runtime.EffectAsk, Rule: "ask-first"}
}

func TestOrderOfStages(t *testing.T) {
	denied := &runtime.Error{Code: runtime.CodeInternal, Msg: "no"}
	for _, c := range []struct {
		name   string
		stages *runtimetest.Stages
		req    runtime.Request
		events string
		code   runtime.Code
		reason runtime.Reason
	}{
		{name: "allow", stages: &runtimetest.Stages{}, events: wholeWay},
		{name: "ask and yes", stages: &runtimetest.Stages{OnDecide: ask}, events: askedWay},
		{
			name: "deny", events: upToPolicy + " outcome", code: runtime.CodeForbidden,
			stages: &runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict {
				return runtime.Verdict{Effect: runtime.EffectDeny, Rule: "no"}
			}},
		},
		{
			name: "the zero verdict", events: upToPolicy + " outcome", code: runtime.CodeForbidden,
			stages: &runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict { return runtime.Verdict{} }},
		},
		{
			name: "an unknown verdict", events: upToPolicy + " outcome", code: runtime.CodeForbidden,
			stages: &runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict { return runtime.Verdict{Effect: "ALLOW"} }},
		},
		{
			name: "the zero principal", events: "ready identify resolve outcome", code: runtime.CodeForbidden, reason: runtime.ReasonScope,
			stages: &runtimetest.Stages{OnIdentify: func(runtime.Caller) (runtime.Principal, error) { return runtime.Principal{}, nil }},
		},
		{
			name: "trail not ready", events: "ready outcome", code: runtime.CodeAuditUnavailable,
			stages: &runtimetest.Stages{OnReady: func() error { return &runtime.Error{Code: runtime.CodeAuditUnavailable} }},
		},
		{
			name: "unidentified", events: "ready identify outcome", code: runtime.CodeUnauthenticated,
			stages: &runtimetest.Stages{OnIdentify: func(runtime.Caller) (runtime.Principal, error) {
				return runtime.Principal{}, &runtime.Error{Code: runtime.CodeUnauthenticated}
			}},
		},
		{
			name: "refused by the surface", events: "ready identify outcome", code: runtime.CodeMisdirected, stages: &runtimetest.Stages{},
			req: runtime.Request{Refusal: &runtime.Error{Code: runtime.CodeMisdirected, Stage: runtime.StageSurface}},
		},
		{
			name: "unresolved", events: "ready identify resolve outcome", code: runtime.CodeUnknownAction,
			stages: &runtimetest.Stages{OnResolve: func(*runtime.Request) (runtime.Resolved, error) {
				return runtime.Resolved{}, &runtime.Error{Code: runtime.CodeUnknownAction}
			}},
		},
		{
			name: "resolved to nothing", events: "ready identify resolve outcome", code: runtime.CodeInternal,
			stages: &runtimetest.Stages{OnResolve: func(*runtime.Request) (runtime.Resolved, error) { return runtime.Resolved{}, nil }},
		},
		{
			name: "no intent, no credential", events: upToPolicy + " intent outcome", code: runtime.CodeAuditUnavailable,
			stages: &runtimetest.Stages{OnIntent: func(context.Context, *runtime.Record) error {
				return &runtime.Error{Code: runtime.CodeAuditUnavailable}
			}},
		},
		{
			name: "approval refused", events: upToPolicy + " intent await outcome", code: runtime.CodeApprovalRejected,
			stages: &runtimetest.Stages{OnDecide: ask, OnAwait: func(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) {
				return runtime.Ticket{}, &runtime.Error{Code: runtime.CodeApprovalRejected, ApprovalID: "apr_9"}
			}},
		},
		{
			name: "unattended", events: upToPolicy + " outcome", code: runtime.CodeForbidden, reason: runtime.ReasonUnattended,
			stages: &runtimetest.Stages{OnDecide: ask}, req: runtime.Request{Unattended: true},
		},
		{
			name: "vault locked", events: upToPolicy + " intent credential outcome", code: runtime.CodeVaultLocked,
			stages: &runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
				return runtime.Credential{}, &runtime.Error{Code: runtime.CodeVaultLocked}
			}},
		},
		{
			name: "asked, vault fails: the ticket is finished", code: runtime.CodeInternal,
			events: upToPolicy + " intent await identify resolve decide credential finish outcome",
			stages: &runtimetest.Stages{OnDecide: ask, OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
				return runtime.Credential{}, denied
			}},
		},
		{
			name: "no backend", events: upToPolicy + " intent credential outcome", code: runtime.CodeInternal,
			stages: &runtimetest.Stages{OnResolve: func(*runtime.Request) (runtime.Resolved, error) {
				a := runtimetest.Action()
				a.Backend = "none"
				return runtime.Resolved{Action: a}, nil
			}},
		},
		{
			name: "an error without a code", events: wholeWay, code: runtime.CodeInternal,
			stages: &runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
				return runtime.Result{}, errors.New("dial 10.0.0.1: boom")
			}},
		},
		{
			name: "the caller went away", events: wholeWay, code: runtime.CodeCanceled,
			stages: &runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
				return runtime.Result{}, context.Canceled
			}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := &runtimetest.Responder{}
			err := pipeline(t, c.stages).Do(t.Context(), &c.req, out)
			if got := strings.Join(c.stages.Events(), " "); got != c.events {
				t.Errorf("stages\n  %s, want\n  %s", got, c.events)
			}
			if runtime.CodeOf(err) != c.code || err != nil && runtime.AsError(err).Reason != c.reason {
				t.Errorf("error %v, want %q %q", err, c.code, c.reason)
			}
			o := c.stages.Outcomes()
			if len(o) != 1 || o[0].ID != "req_1" || o[0].Ended.IsZero() {
				t.Fatalf("outcomes: %+v", o)
			}
			if err == nil {
				if o[0].Err != nil || out.Answer().Body != "ok" || o[0].Version != 3 {
					t.Errorf("outcome %+v, answer %+v", o[0], out.Answer())
				}
				return
			}
			if runtime.AsError(err).RequestID != "req_1" || o[0].Err == nil || o[0].Err.Code != c.code || out.Answer().Status != 0 {
				t.Errorf("error %+v, outcome %+v", err, o[0])
			}
			if strings.Contains(runtime.AsError(err).Msg, "10.0.0.1") {
				t.Errorf("the caller sees the cause: %v", runtime.AsError(err).Msg)
			}
		})
	}
}

func TestIntentComesBeforeTheCredentialAndSaysTheVerdict(t *testing.T) {
	s := &runtimetest.Stages{}
	req := &runtime.Request{Raw: &runtime.Raw{Body: strings.NewReader("x"), ContentLength: 1}}
	if err := pipeline(t, s).Do(t.Context(), req, &runtimetest.Responder{}); err != nil {
		t.Fatal(err)
	}
	r := s.Intents()[0]
	if r.Verdict.Rule != "default:low" || r.Credential != "test" || r.Body != "streamed" || r.Version != 0 {
		t.Errorf("intent: %+v", r)
	}
	if o := s.Outcomes()[0]; o.Sequence != 1 || o.Result.Status != 200 {
		t.Errorf("outcome: %+v", o)
	}
}

// A stage that gives up because the caller's time is over is no fault of the
// stage.
func TestTheCallersTimeIsOver(t *testing.T) {
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	s := &runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
		return runtime.Credential{}, &runtime.Error{Code: runtime.CodeVaultLocked, Msg: "the store did not answer", Err: ctx.Err()}
	}}
	err := pipeline(t, s).Do(ctx, &runtime.Request{}, &runtimetest.Responder{})
	if e := runtime.AsError(err); e.Code != runtime.CodeTimeout || e.Stage != runtime.StageCredential {
		t.Errorf("%s at %s: %v", e.Code, e.Stage, err)
	}
}

// Who keeps credentials knows their names alone; the command in what a caller hears is for the
// service of its request.
func TestAdviceNamesTheService(t *testing.T) {
	kept := &runtime.Error{Code: runtime.CodeNoCredential, Msg: "it is over", Hint: "the owner signs in anew: kimbap link SERVICE --client FILE"}
	s := &runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) { return runtime.Credential{}, kept }}
	e := runtime.AsError(pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{}))
	if e.Hint != "the owner signs in anew: kimbap link "+runtimetest.Action().Service+" --client FILE" || e.Code != runtime.CodeNoCredential {
		t.Errorf("%+v", e)
	}
	if !strings.Contains(kept.Hint, "SERVICE") {
		t.Error("the error of all services was changed")
	}
}
