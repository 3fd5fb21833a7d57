//go:build unix

package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Where the required sinks make a record durable, an intent waits for them and not for the
// disk, which has it when somebody asks for that; one that they do not have is refused.
func TestSinksMakeRecordsDurable(t *testing.T) {
	dir := t.TempDir()
	clock, m := runtimetest.NewClock(), &memory{required: true}
	o := audittest.Options(dir)
	o.Sinks, o.After, o.SinksLast = []outlet.Sink{&memory{}, m}, clock.After, true
	l := audittest.Open(t, o)
	before, _, _ := l.Tip()
	if err := l.Intent(t.Context(), audittest.Record("req_1")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.lines(), "req_1") {
		t.Error("Intent returned before the required sink had the record")
	}
	if now, _, _ := l.Tip(); now != before {
		t.Errorf("the disk was waited for: %d records are on it, %d were", now, before)
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, _, _ := l.Tip(); now <= before {
		t.Error("the disk does not have it when somebody has waited for that")
	}
	m.set(errors.New("gone"))
	if err := l.Intent(t.Context(), audittest.Record("req_2")); err == nil {
		t.Error("an intent that no required sink has was let through")
	}
	m.set(nil)
	for l.Ready() != nil {
		clock.Advance(2e9)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.lines(), "req_2") {
		t.Error("the sink has not got what it had missed")
	}
	audittest.Verified(t, dir)
}

func TestWithoutARequiredSinkNothingWouldBeDurable(t *testing.T) {
	o := audittest.Options(t.TempDir())
	o.Sinks, o.SinksLast = []outlet.Sink{&memory{}}, true
	if _, err := audit.New(o); err == nil {
		t.Error("made")
	}
}
