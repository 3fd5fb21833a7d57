package runtime_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestPanicInAnyStageDeniesAndIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		set    func(*runtimetest.Stages)
		events string
	}{
		"ready": {func(s *runtimetest.Stages) { s.OnReady = func() error { panic("x") } }, "ready outcome"},
		"identify": {func(s *runtimetest.Stages) {
			s.OnIdentify = func(runtime.Caller) (runtime.Principal, error) { panic("x") }
		}, "ready identify outcome"},
		"resolve": {func(s *runtimetest.Stages) {
			s.OnResolve = func(*runtime.Request) (runtime.Resolved, error) { panic("x") }
		}, "ready identify resolve outcome"},
		"decide": {func(s *runtimetest.Stages) { s.OnDecide = func(runtime.Question) runtime.Verdict { panic("x") } }, upToPolicy + " outcome"},
		"intent": {func(s *runtimetest.Stages) { s.OnIntent = func(context.Context, *runtime.Record) error { panic("x") } }, upToPolicy + " intent outcome"},
		"await": {func(s *runtimetest.Stages) {
			s.OnDecide = ask
			s.OnAwait = func(context.Context, *runtime.Call, runtime.Verdict) (runtime.Ticket, error) { panic("x") }
		}, upToPolicy + " intent await outcome"},
		"credential": {func(s *runtimetest.Stages) {
			s.OnDecide = ask
			s.OnCredential = func(runtime.Tenant, *runtime.Auth) (runtime.Credential, error) { panic("x") }
		}, upToPolicy + " intent await identify resolve decide credential finish outcome"},
		"execute": {func(s *runtimetest.Stages) {
			s.OnDecide = ask
			s.OnExecute = func(context.Context, *runtime.Call, runtime.Responder) (runtime.Result, error) { panic("x") }
		}, askedWay},
		"finish": {func(s *runtimetest.Stages) {
			s.OnDecide = ask
			s.OnFinish = func(context.Context, runtime.Ticket, error) error { panic("x") }
		}, askedWay},
	} {
		t.Run(name, func(t *testing.T) {
			s := &runtimetest.Stages{}
			c.set(s)
			finished := []error{}
			if s.OnFinish == nil {
				s.OnFinish = func(_ context.Context, _ runtime.Ticket, err error) error {
					finished = append(finished, err)
					return nil
				}
			}
			err := pipeline(t, s).Do(t.Context(), &runtime.Request{}, &runtimetest.Responder{})
			if runtime.CodeOf(err) != runtime.CodeInternal {
				t.Errorf("error %v", err)
			}
			if got := strings.Join(s.Events(), " "); got != c.events {
				t.Errorf("stages\n  %s, want\n  %s", got, c.events)
			}
			if o := s.Outcomes(); len(o) != 1 || !o[0].Panicked || o[0].Err == nil {
				t.Errorf("outcomes: %+v", o)
			}
			for _, err := range finished {
				if err == nil {
					t.Error("the approval was finished as a success")
				}
			}
		})
	}
}

func TestPanicInAbortIsStillRecorded(t *testing.T) {
	s := &runtimetest.Stages{OnDecide: func(runtime.Question) runtime.Verdict { return runtime.Verdict{} }}
	out := &runtimetest.Responder{OnAbort: func(error) { panic(http.ErrAbortHandler) }}
	func() {
		defer func() { _ = recover() }()
		_ = pipeline(t, s).Do(t.Context(), &runtime.Request{}, out)
	}()
	if o := s.Outcomes(); len(o) != 1 || o[0].Err == nil {
		t.Errorf("outcomes: %+v", o)
	}
}
