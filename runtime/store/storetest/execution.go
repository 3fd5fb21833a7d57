package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
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

	// There may be thousands of calls in one write, some of which are there already.
	many, calls := anExecution(7), make([]journal.Call, 1001)
	for i := range calls {
		calls[i] = journal.Call{Step: i + 1, Sealed: []byte("first")}
	}
	written(t, s, true, many, calls[:500]...)
	for i := range calls {
		calls[i] = journal.Call{Step: i + 1, Settled: len(calls) - i, Sealed: fmt.Appendf(nil, "call %d", i)}
	}
	written(t, s, true, many, calls...)
	kept(t, s, many, calls...)

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

// bytesOf is how much is kept of a principal's executions, and of all.
func bytesOf(t *testing.T, s Store, tenant runtime.Tenant, principal string) (own, all int64) {
	t.Helper()
	own, all, err := s.ExecutionBytes(t.Context(), tenant, principal)
	must(t, err)
	return own, all
}

func executionRoom(t *testing.T, s Store) {
	of := func(n int, tenant runtime.Tenant, principal string, state journal.State) journal.Execution {
		e := anExecution(n)
		e.Tenant, e.Principal, e.State = tenant, principal, state
		return e
	}
	calls := func(size int) []journal.Call {
		return []journal.Call{{Step: 1, Sealed: make([]byte, size)}, {Step: 2, Sealed: make([]byte, size)}}
	}
	own, all := bytesOf(t, s, ours, "a")
	same(t, "bytes of nothing", []int64{own, all}, []int64{0, 0})
	if _, who, err := s.MostExecutions(t.Context()); who != "" || err != nil {
		t.Errorf("%q has most of nothing: %v", who, err)
	}

	// Whatever is written, replaced or removed is counted, of whom it is.
	written(t, s, true, of(1, ours, "a", journal.Running), calls(10_000)...)
	before, _ := bytesOf(t, s, ours, "a")
	if before < 20_000 || before > 30_000 {
		t.Errorf("20,000 bytes count %d", before)
	}
	grown := of(1, ours, "a", journal.Paused)
	grown.Result = make([]byte, 500)
	written(t, s, true, grown, journal.Call{Step: 1, Sealed: make([]byte, 15_000)}, journal.Call{Step: 3, Sealed: make([]byte, 7)})
	grown.Result = make([]byte, 300)
	written(t, s, true, grown)
	own, _ = bytesOf(t, s, ours, "a")
	same(t, "what was added", own-before, int64(5000+7+300))
	foreign := grown
	foreign.Holder = "2:b"
	written(t, s, false, foreign, calls(30_000)...)
	written(t, s, true, of(2, theirs, "a", journal.Ended), calls(1000)...)
	written(t, s, true, of(3, ours, "b", journal.Running), calls(50_000)...)
	again, all := bytesOf(t, s, ours, "a")
	same(t, "what is its own", again, own)
	if all < own+100_000 || all > own+120_000 {
		t.Errorf("of all %d, of one %d", all, own)
	}

	// What has ended goes, the oldest first and no more than is needed; nothing else.
	for n := 4; n < 8; n++ {
		written(t, s, true, of(n, ours, "a", journal.Ended), calls(10_000)...)
	}
	tenant, who, err := s.MostExecutions(t.Context())
	must(t, err)
	same(t, "who has most of what may go", string(tenant)+" "+who, string(ours)+" a")
	full, _ := bytesOf(t, s, ours, "a")
	freed, err := s.ForgetEnded(t.Context(), ours, "a", 25_000)
	must(t, err)
	left, _ := bytesOf(t, s, ours, "a")
	same(t, "freed", freed, full-left)
	for n, want := range map[int]bool{1: true, 4: false, 5: false, 6: true, 7: true} {
		_, found, err := s.Execution(t.Context(), ours, fmt.Sprint("exe_", n))
		must(t, err)
		same(t, fmt.Sprint("execution ", n, " is there"), found, want)
	}
	for range 9 {
		_, err = s.ForgetEnded(t.Context(), ours, "a", 1<<40)
		must(t, err)
	}
	left, _ = bytesOf(t, s, ours, "a")
	same(t, "what waits still", left, own)
	kept(t, s, of(2, theirs, "a", journal.Ended), calls(1000)...)

	// One that is longer than a transaction should be goes too, and what expires is freed. It
	// is written as scripts do it, call by call: a store answers within its time or not at all.
	for step := range 12 {
		written(t, s, true, of(8, ours, "a", journal.Running), journal.Call{Step: step + 1, Sealed: make([]byte, 1<<20)})
	}
	written(t, s, true, of(8, ours, "a", journal.Ended))
	freed, err = s.ForgetEnded(t.Context(), ours, "a", 1)
	must(t, err)
	left, _ = bytesOf(t, s, ours, "a")
	same(t, "what waits still", []int64{left, freed / (6 << 20)}, []int64{own, 2})
	must(t, s.DropExecutions(t.Context(), at(59).Add(time.Hour)))
	own, all = bytesOf(t, s, ours, "a")
	same(t, "bytes of nothing", []int64{own, all}, []int64{0, 0})
}
