package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

func anExecution(n int) journal.Execution {
	return journal.Execution{
		ID: fmt.Sprint("exe_", n), Tenant: ours, Principal: "token:tok_1", State: journal.Running, Holder: "1:a",
		Script: []byte{0, 1, 2}, Created: at(n), Expires: at(n + 30),
	}
}

// written keeps an execution and holds the store to its answer.
func written(t *testing.T, s Store, want bool, e journal.Execution, calls ...journal.Call) {
	t.Helper()
	ok, err := s.WriteExecution(t.Context(), e, calls)
	must(t, err)
	same(t, "written", ok, want)
}

// kept reads one back whole.
func kept(t *testing.T, s Store, want journal.Execution, wantCalls ...journal.Call) {
	t.Helper()
	got, found, err := s.Execution(t.Context(), want.Tenant, want.ID)
	must(t, err)
	same(t, "found", found, true)
	same(t, "the execution", got, want)
	calls, err := s.ExecutionCalls(t.Context(), want.Tenant, want.ID)
	must(t, err)
	same(t, "its calls", calls, wantCalls)
}

func executions(t *testing.T, s Store) {
	e := anExecution(1)
	one, two := journal.Call{Step: 1, Sealed: []byte("a")}, journal.Call{Step: 2, Settled: 1, Sealed: []byte("b")}
	written(t, s, true, e, two, one)
	kept(t, s, e, one, two)

	// Later writes replace calls and the state; who, what and when stay.
	one.Settled, one.Sealed = 2, []byte("c")
	paused := e
	paused.State, paused.Result, paused.Expires = journal.Paused, []byte("r"), at(50)
	forged := paused
	forged.Principal, forged.Script, forged.Created = "somebody", []byte("else"), at(9)
	written(t, s, true, forged, one)
	kept(t, s, paused, one, two)

	// Another tenant has none such, and cannot write over it.
	if _, found, err := s.Execution(t.Context(), theirs, e.ID); found || err != nil {
		t.Errorf("another tenant found it: %v", err)
	}
	if calls, err := s.ExecutionCalls(t.Context(), theirs, e.ID); len(calls) > 0 || err != nil {
		t.Errorf("another tenant read %d calls: %v", len(calls), err)
	}
	foreign := paused
	foreign.Tenant = theirs
	written(t, s, false, foreign, journal.Call{Step: 1, Sealed: []byte("x")})
	kept(t, s, paused, one, two)

	// What has ended stays as it is.
	paused.State = journal.Ended
	written(t, s, true, paused)
	written(t, s, false, e, journal.Call{Step: 1, Sealed: []byte("x")})
	kept(t, s, paused, one, two)
}

func claims(t *testing.T, s Store) {
	ctx := t.Context()
	e := anExecution(1)
	e.State = journal.Paused
	written(t, s, true, e)
	for _, wrong := range []func() (bool, error){
		func() (bool, error) { return s.ClaimExecution(ctx, theirs, e.ID, journal.Paused, e.Holder, "2:b") },
		func() (bool, error) { return s.ClaimExecution(ctx, ours, "exe_9", journal.Paused, e.Holder, "2:b") },
		func() (bool, error) { return s.ClaimExecution(ctx, ours, e.ID, journal.Running, e.Holder, "2:b") },
		func() (bool, error) { return s.ClaimExecution(ctx, ours, e.ID, journal.Paused, "3:c", "2:b") },
	} {
		if ok, err := wrong(); ok || err != nil {
			t.Errorf("claimed what is not so: %v", err)
		}
	}
	yes := together(t, 20, func(i int) (bool, error) {
		return s.ClaimExecution(ctx, ours, e.ID, journal.Paused, e.Holder, fmt.Sprint("2:", i))
	})
	same(t, "claims that won", yes, 1)
	written(t, s, false, e) // by the process that held it before
}

func droppedExecutions(t *testing.T, s Store) {
	for n := range 3 {
		written(t, s, true, anExecution(n), journal.Call{Step: 1, Sealed: []byte("a")})
	}
	must(t, s.DropExecutions(t.Context(), at(31).Add(time.Second)))
	for n, want := range []bool{false, false, true} {
		_, found, err := s.Execution(t.Context(), ours, anExecution(n).ID)
		must(t, err)
		same(t, fmt.Sprint("execution ", n, " is there"), found, want)
	}
	written(t, s, true, anExecution(0)) // its calls went with it
	kept(t, s, anExecution(0))
}
