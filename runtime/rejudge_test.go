package runtime_test

import (
	"errors"
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
		"no such action": {&runtimetest.Stages{OnResolve: func(*runtime.Request) (*runtime.Action, runtime.Args, error) {
			return nil, nil, errors.New("gone")
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
