package audit_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// timed is a log whose clock goes only when told to, and that clock.
func timed(t *testing.T, dir string) (*audit.Log, *runtimetest.Clock) {
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.After = clock.Now, clock.After
	return audittest.Open(t, o), clock
}

// What carries no credential of ours waits until it is written, and the disk follows
// within a tenth of a second; what carries one waits for the disk, and then all before it
// is there too.
func TestAMildIntentIsWrittenAtOnceAndSyncedSoon(t *testing.T) {
	dir := t.TempDir()
	l, clock := timed(t, dir)
	mild := func(n int) {
		t.Helper()
		if err := l.Intent(t.Context(), audittest.Mild(fmt.Sprint("req_", n))); err != nil {
			t.Fatal(err)
		}
		if got := len(audittest.Lines(t, dir)); got != n {
			t.Fatalf("%d records are written, not %d", got, n)
		}
	}
	mild(1)
	mild(2)
	if got := l.Health().Sequence; got != 0 {
		t.Fatalf("record %d counts as durable", got)
	}
	if err := l.Intent(t.Context(), audittest.Record("req_3")); err != nil || l.Health().Sequence != 3 {
		t.Fatalf("%v, and record %d is durable", err, l.Health().Sequence)
	}
	mild(4)
	runtimetest.Eventually(t, "somebody waits for the clock", func() bool { return clock.Timers() > 0 })
	clock.Advance(100 * time.Millisecond)
	runtimetest.Eventually(t, "after a tenth of a second record 4 is durable", func() bool { return l.Health().Sequence == 4 })
	mild(5)
	audittest.Shut(t, l)
	if got := l.Health().Sequence; got != 5 {
		t.Errorf("after the end record %d is durable", got)
	}
	audittest.Verified(t, dir)
}

// A sync that fails may have lost what was written before: the records that counted
// already are written once more before anything goes on.
func TestWhatAFailedSyncLostIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	l, clock := timed(t, dir)
	var under []*runtime.Record
	for n := range 3 {
		r := audittest.Mild(fmt.Sprint("req_", n))
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		under = append(under, r)
	}
	path := filepath.Join(dir, "proxy", "00000001.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Fail()
	runtimetest.Eventually(t, "no request goes on after a sync that failed", func() bool {
		clock.Advance(10 * time.Millisecond)
		return l.Ready() != nil
	})
	lost := bytes.Replace(whole, []byte("req_1"), []byte("\x00\x00\x00\x00\x00"), 1)
	if bytes.Equal(lost, whole) || os.WriteFile(path, lost, 0o600) != nil {
		t.Fatal("nothing was lost")
	}
	for _, r := range under {
		l.Outcome(r)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("not recovered: %+v", l.Health())
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
	kinds := map[string]int{}
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		kinds[e.Kind]++
	}
	if !maps.Equal(kinds, map[string]int{"intent": 3, "outcome": 3, "event": 1}) {
		t.Errorf("the ledger holds %v", kinds)
	}
}

// A segment is left only when all of it is durable.
func TestMildRecordsAcrossSegments(t *testing.T) {
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 8 << 10
	l := audittest.Open(t, o)
	for n := range 200 {
		r := audittest.Mild(fmt.Sprint("req_", n))
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		l.Outcome(r)
	}
	audittest.Shut(t, l)
	report := audittest.Verified(t, dir)
	if got := report.Slots[0]; got.Segments < 5 || got.Records < 400 {
		t.Errorf("the report has %+v", got)
	}
}
