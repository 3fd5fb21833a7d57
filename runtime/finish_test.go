package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// The answer went out whole: that its end could not be written down is no error of
// the request, which a client would send again.
func TestAnEndThatCannotBeWrittenIsNoErrorOfTheRequest(t *testing.T) {
	s, out := &runtimetest.Stages{OnDecide: ask}, &runtimetest.Responder{}
	finished := 0
	s.OnFinish = func(_ context.Context, _ runtime.Ticket, err error) error {
		if finished++; err != nil {
			t.Errorf("finished with %v", err)
		}
		return &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the store did not answer in time"}
	}
	err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, out)
	o := s.Outcomes()
	if err != nil || finished != 1 || len(o) != 1 || o[0].Err != nil || o[0].ApprovalID == "" {
		t.Errorf("error %v, finished %d times, outcomes %+v", err, finished, o)
	}
	if a := out.Answer(); a.Body != "ok" || a.Aborted != nil {
		t.Errorf("answer %+v", a)
	}
}

// G19: an execution that was cut off is reported unknown; one that never left is
// reported failed.
func TestFinishKnowsWhatMayHaveHappened(t *testing.T) {
	executing := func(err error) *runtimetest.Stages {
		return &runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
			return runtime.Result{}, err
		}}
	}
	for name, c := range map[string]struct {
		stages  *runtimetest.Stages
		unknown bool
	}{
		"done":                    {&runtimetest.Stages{}, false},
		"the upstream broke off":  {executing(&runtime.Error{Code: runtime.CodeUpstream}), true},
		"no answer in time":       {executing(&runtime.Error{Code: runtime.CodeTimeout}), true},
		"the caller went away":    {executing(context.Canceled), true},
		"an error without a name": {executing(errors.New("x")), true},
		"could not be reached":    {executing(&runtime.Error{Code: runtime.CodeUpstream, Err: errors.Join(runtime.ErrNotSent, errors.New("x"))}), false},
		"refused by the guard":    {executing(&runtime.Error{Code: runtime.CodeEgressDenied}), false},
		"no trust":                {executing(&runtime.Error{Code: runtime.CodeUpstreamTLS}), false},
		"a panic in the backend": {&runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
			panic("x")
		}}, true},
		"a panic before it": {&runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
			panic("x")
		}}, false},
		"no backend": {&runtimetest.Stages{OnResolve: func(*runtime.Request) (runtime.Resolved, error) {
			a := runtimetest.Action()
			a.Backend = "none"
			return runtime.Resolved{Action: a}, nil
		}}, false},
		"no credential in time": {&runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
			return runtime.Credential{}, &runtime.Error{Code: runtime.CodeTimeout}
		}}, false},
	} {
		c.stages.OnDecide = ask
		finished := 0
		c.stages.OnFinish = func(_ context.Context, _ runtime.Ticket, err error) error {
			if finished++; runtime.MayHaveHappened(err) != c.unknown || (err == nil) != (name == "done") {
				t.Errorf("%s: finished with %v, unknown %v", name, err, runtime.MayHaveHappened(err))
			}
			return nil
		}
		_ = pipeline(t, c.stages).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
		if finished != 1 {
			t.Errorf("%s: finished %d times", name, finished)
		}
	}
}

// What an error says with arguments is for the caller: the trail and the approval keep it
// without them.
func TestNoRecordKeepsTheArgumentsThatAnErrorSays(t *testing.T) {
	kept := ""
	s := &runtimetest.Stages{OnDecide: ask}
	s.OnExecute = func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
		return runtime.Result{}, &runtime.Error{Code: runtime.CodeUpstream, Msg: "the pin 1234-5678 is wrong", Plain: "the pin {pin} is wrong", Hint: "ask"}
	}
	s.OnFinish = func(_ context.Context, _ runtime.Ticket, err error) error {
		kept = runtime.AsError(err).Msg
		return nil
	}
	told := runtime.AsError(pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{}))
	if told.Msg != "the pin 1234-5678 is wrong" || told.RequestID == "" {
		t.Errorf("the caller is told %+v", told)
	}
	const plain = "the pin {pin} is wrong"
	if o := s.Outcomes(); len(o) != 1 || o[0].Err.Msg != plain || o[0].Err.Hint != "ask" || o[0].Err.RequestID != told.RequestID || kept != plain {
		t.Errorf("the trail keeps %+v, the approval %q", o[0].Err, kept)
	}
}

// A request has not been sent only where that is certain: the backend was not asked, or
// says so of all its attempts.
func TestSentUnlessThatIsCertain(t *testing.T) {
	executing := func(result runtime.Result, err error) *runtimetest.Stages {
		return &runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
			return result, err
		}}
	}
	denied := &runtime.Error{Code: runtime.CodeForbidden, Stage: runtime.StagePolicy}
	for name, c := range map[string]struct {
		stages *runtimetest.Stages
		sent   bool
	}{
		"done":                           {&runtimetest.Stages{}, true},
		"done, whatever the result says": {executing(runtime.Result{Unsent: true}, nil), true},
		"never left":                     {executing(runtime.Result{Unsent: true}, denied), false},
		"refused before another attempt": {executing(runtime.Result{}, denied), true},
		"not sent at the last attempt":   {executing(runtime.Result{}, runtime.ErrNotSent), true},
		"a panic in the backend": {&runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
			panic("x")
		}}, true},
		"no credential": {&runtimetest.Stages{OnCredential: func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) {
			return runtime.Credential{}, denied
		}}, false},
	} {
		req := &runtime.Request{}
		_ = pipeline(t, c.stages).Do(t.Context(), req, &runtimetest.Responder{})
		if req.Sent != c.sent {
			t.Errorf("%s: sent %v", name, req.Sent)
		}
		if req.Refusal = denied; pipeline(t, c.stages).Do(t.Context(), req, &runtimetest.Responder{}) == nil || req.Sent != c.sent {
			t.Errorf("%s, and refused after: sent %v", name, req.Sent)
		}
	}
}

// What has been sent once, or twice, stays so, though it was not this time: a request that is
// taken through the pipeline again may have happened before.
func TestWhatWasSentBeforeStaysSent(t *testing.T) {
	for name, c := range map[string]struct {
		before, sent         bool
		result               runtime.Result
		repeatedBefore, want bool
	}{
		"never":             {false, false, runtime.Result{Unsent: true}, false, false},
		"before":            {true, true, runtime.Result{Unsent: true}, false, false},
		"now":               {false, true, runtime.Result{}, false, false},
		"repeated now":      {false, true, runtime.Result{Repeated: true}, false, true},
		"repeated before":   {true, true, runtime.Result{Unsent: true}, true, true},
		"repeated and then": {true, true, runtime.Result{}, true, true},
	} {
		s := &runtimetest.Stages{OnExecute: func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) {
			return c.result, &runtime.Error{Code: runtime.CodeUpstream, Msg: "no"}
		}}
		req := &runtime.Request{Sent: c.before, Repeated: c.repeatedBefore}
		if err := pipeline(t, s).Do(t.Context(), req, &runtimetest.Responder{}); err == nil {
			t.Error("no error")
		}
		if req.Sent != c.sent || req.Repeated != c.want {
			t.Errorf("%s: sent %v, repeated %v", name, req.Sent, req.Repeated)
		}
	}
}
