//go:build unix

package audit_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// died is a copy of the trail of a process that ended within a request.
func died(t *testing.T) string {
	t.Helper()
	from, dir := t.TempDir(), t.TempDir()
	l := audittest.Open(t, audittest.Options(from))
	if err := l.Intent(t.Context(), audittest.Record("req_dead")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What a start writes of the requests that a dead process left open is in the sinks as in
// the ledger.
func TestSinksGetWhatTheDeadLeftOpen(t *testing.T) {
	for _, shared := range []bool{false, true} {
		required, other := &memory{required: true}, &memory{}
		o := audittest.Options(died(t))
		o.Shared, o.Sinks = shared, []outlet.Sink{other, required}
		l := audittest.Open(t, o)
		if got := required.lines(); shared == strings.Contains(got, `"unknown"`) { // who wrote to a shared slot lives still
			t.Errorf("shared %t: the required sink has %q", shared, got)
		}
		audittest.Shut(t, l)
		if other.lines() != required.lines() {
			t.Errorf("shared %t: the other sink has %q", shared, other.lines())
		}
	}
}

// A required sink that fails at the start gets it before any request passes.
func TestARequiredSinkThatFailsAtTheStartGetsWhatTheDeadLeftOpen(t *testing.T) {
	clock, m := runtimetest.NewClock(), &memory{required: true}
	m.set(errors.New("gone"))
	o := audittest.Options(died(t))
	o.After, o.Sinks = clock.After, []outlet.Sink{m}
	l := audittest.Open(t, o)
	if err := l.Intent(t.Context(), audittest.Record("req_next")); err == nil {
		t.Error("a request passed before the sink has what it missed")
	}
	m.set(nil)
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.lines(), `"unknown"`) {
		t.Errorf("the sink has %q", m.lines())
	}
	audittest.Shut(t, l)
	audittest.Verified(t, o.Dir)
}

// A sink that knows what to do about its failure is the one to be asked: the disk of the
// ledger is as it should be.
func TestTheFixOfASinkIsItsOwn(t *testing.T) {
	m := &memory{required: true}
	o := audittest.Options(t.TempDir())
	o.After, o.Sinks = runtimetest.NewClock().After, []outlet.Sink{m}
	l := audittest.Open(t, o)
	m.set(&runtime.Error{Code: runtime.CodeStorageBusy, Msg: "it does not answer", Hint: "look whether the server runs"})
	err := l.Intent(t.Context(), audittest.Record("req_1"))
	if e := runtime.AsError(err); e == nil || e.Hint != "look whether the server runs" {
		t.Errorf("%+v", err)
	}
}

// Requests that ended while a required sink was gone are not told as unknown when the
// process ends before the sink is back.
func TestOutcomesAreInTheLedgerWhenTheSinkIsGoneAtTheEnd(t *testing.T) {
	m := &memory{required: true}
	o := audittest.Options(t.TempDir())
	o.After, o.Sinks = runtimetest.NewClock().After, []outlet.Sink{m}
	l := audittest.Open(t, o)
	r := audittest.Record("req_1")
	if err := l.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	m.set(errors.New("gone"))
	if err := l.Intent(t.Context(), audittest.Record("req_2")); err == nil {
		t.Fatal("the sink is needed and was not")
	}
	l.Outcome(r)
	_ = l.Close(context.Background())
	lines := strings.Join(audittest.Lines(t, o.Dir), "\n")
	if !strings.Contains(lines, `"kind":"outcome","intent":1`) {
		t.Errorf("the outcome is lost:\n%s", lines)
	}
	audittest.Verified(t, o.Dir)
}
