package audit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv("KIMBAP_AUDIT_CHILD"); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(runtimetest.Settled{M: m})
}

func TestNewRefusesWhatIsMissing(t *testing.T) {
	for name, spoil := range map[string]func(*audit.Options){
		"Dir":    func(o *audit.Options) { o.Dir = "" },
		"Slot":   func(o *audit.Options) { o.Slot = "../x" },
		"Clock":  func(o *audit.Options) { o.Clock = nil },
		"Redact": func(o *audit.Options) { o.Redact = nil },
		"Sinks":  func(o *audit.Options) { o.Sinks = []outlet.Sink{nil} },
	} {
		o := audittest.Options(t.TempDir())
		spoil(&o)
		if _, err := audit.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("New without a good %s: %v", name, err)
		}
	}
}

func TestBeforeOpenAndAfterCloseItRefuses(t *testing.T) {
	l, err := audit.New(audittest.Options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	if runtime.CodeOf(l.Ready()) != runtime.CodeAuditUnavailable {
		t.Error("ready before Open")
	}
	if err := l.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	audittest.Shut(t, l)
	if runtime.CodeOf(l.Ready()) != runtime.CodeAuditUnavailable {
		t.Error("ready after Close")
	}
	r := audittest.Record("req_1")
	if err := l.Intent(t.Context(), r); runtime.CodeOf(err) != runtime.CodeAuditUnavailable || r.Sequence != 0 {
		t.Errorf("Intent after Close: %v, sequence %d", err, r.Sequence)
	}
	l.Outcome(r)
}

func TestIntentThenOutcome(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	r := audittest.Record("req_1")
	if err := l.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if r.Sequence != 1 {
		t.Fatalf("sequence %d, want 1", r.Sequence)
	}
	if got := audittest.Kinds(audittest.Entries(t, dir, history.Query{})); got != "intent" {
		t.Fatalf("after Intent the ledger holds %q", got)
	}
	r.Result.Status, r.Ended = 200, time.Now()
	l.Outcome(r)
	refused := audittest.Record("req_2")
	refused.Err = &runtime.Error{Code: runtime.CodeForbidden, Msg: "no"}
	l.Outcome(refused)
	if err := l.Event(t.Context(), record.Event{Kind: "vault.set", Principal: "local:1000", Fields: map[string]string{"name": "github"}}); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	all := audittest.Entries(t, dir, history.Query{})
	if got := audittest.Kinds(all); got != "intent outcome refusal event" {
		t.Fatalf("the ledger holds %q", got)
	}
	if all[1].Status != 200 || all[2].Code != "forbidden" || all[3].Action != "vault.set" {
		t.Errorf("entries: %+v", all)
	}
	report := audittest.Verified(t, dir)
	if s := report.Slots[0]; s.First != 1 || s.Last != 4 || s.Records != 4 || len(s.Head) != 64 {
		t.Errorf("report: %+v", s)
	}
	if !strings.Contains(report.String(), "not anchored") {
		t.Errorf("the report does not say that a cut tail cannot be seen: %s", report)
	}
}

func TestOutcomeIsWrittenByTheTimer(t *testing.T) {
	dir := t.TempDir()
	timer := make(chan time.Time)
	asked := make(chan time.Duration, 1)
	o := audittest.Options(dir)
	o.After = func(d time.Duration) <-chan time.Time { asked <- d; return timer }
	l := audittest.Open(t, o)
	l.Outcome(audittest.Record("req_1"))
	if d := <-asked; d > 100*time.Millisecond {
		t.Fatalf("an outcome may wait %v", d)
	}
	timer <- time.Now()
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := audittest.Kinds(audittest.Entries(t, dir, history.Query{})); got != "refusal" {
		t.Fatalf("the ledger holds %q", got)
	}
}

func TestGroupsUnderLoadChainAcrossSegments(t *testing.T) { // AU-009
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 16 << 10
	l := audittest.Open(t, o)
	const callers, each = 16, 50
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				r := audittest.Record(fmt.Sprintf("req_%d_%d", c, i))
				if err := l.Intent(context.Background(), r); err != nil {
					t.Error(err)
				}
				l.Outcome(r)
			}
		})
	}
	wg.Wait()
	audittest.Shut(t, l)
	report := audittest.Verified(t, dir)
	s := report.Slots[0]
	if s.Segments < 3 {
		t.Errorf("only %d segments", s.Segments)
	}
	seen := map[string]int{}
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		seen[e.Kind+e.RequestID]++
	}
	for c := range callers {
		for i := range each {
			id := fmt.Sprintf("req_%d_%d", c, i)
			if seen["intent"+id] != 1 || seen["outcome"+id] != 1 {
				t.Fatalf("%s: %d intents, %d outcomes", id, seen["intent"+id], seen["outcome"+id])
			}
		}
	}
}

func TestMovedSegmentIsFollowedByANewOne(t *testing.T) { // AU-009
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	first := audittest.Record("req_1")
	if err := l.Intent(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "proxy", "00000001.jsonl")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"req_2", "req_3"} {
		if err := l.Intent(t.Context(), audittest.Record(id)); err != nil {
			t.Fatal(err)
		}
	}
	audittest.Shut(t, l)
	report, err := proof.Verify(t.Context(), dir, proof.Trust{})
	if err != nil || report.OK || report.Slots[0].Problems[0].Kind != proof.ProblemSegment {
		t.Fatalf("a segment is away and the report says:\n%s %v", report, err)
	}
	if got := audittest.Entries(t, dir, history.Query{RequestID: "req_2"}); len(got) == 0 {
		t.Error("what comes after a missing file cannot be read")
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	audittest.Verified(t, dir)
}

func TestClockThatJumpsBackIsMarked(t *testing.T) { // AU-011
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock = clock.Now
	l := audittest.Open(t, o)
	for _, step := range []time.Duration{0, -24 * time.Hour, 48 * time.Hour} {
		clock.Advance(step)
		if err := l.Intent(t.Context(), audittest.Record("req")); err != nil {
			t.Fatal(err)
		}
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
	for i, line := range audittest.Lines(t, dir) {
		if got := strings.Contains(line, `"clock":"back"`); got != (i == 1) {
			t.Errorf("line %d marked: %v", i+1, got)
		}
	}
}

// A start that fails, as where the slot cannot be had or its ledger not read, is an error
// that says why.
func TestAStartThatFailsSaysWhy(t *testing.T) {
	for _, slot := range []string{"cli", "proxy"} {
		t.Run(slot, func(t *testing.T) {
			o := audittest.Options(t.TempDir())
			o.Slot, o.Shared = slot, slot == "cli"
			if err := os.WriteFile(filepath.Join(o.Dir, slot), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			l, err := audit.New(o)
			if err == nil {
				err = l.Open(t.Context())
			}
			if runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Errorf("%v", err)
			}
		})
	}
}

// The advice is about what is wrong, not about the disk where that is well.
func TestTheAdviceIsAboutWhatIsWrong(t *testing.T) {
	sink := func(err error) error { return fmt.Errorf("%w", &outlet.Failure{Sink: "a", Err: err}) }
	for want, err := range map[string]error{
		"try again":   fmt.Errorf("open the audit trail: %w", system.ErrTaken),
		"audit sink":  sink(context.DeadlineExceeded),
		"audit.sinks": sink(&outlet.Refused{Err: os.ErrInvalid}),
		"free space":  syscall.ENOSPC,
		"ulimit -f":   syscall.EFBIG,
		"ulimit -n":   syscall.EMFILE,
		"read-only":   syscall.EROFS,
	} {
		if said := audit.Fix(err); !strings.Contains(said, want) || strings.Contains(said, "who owns it") {
			t.Errorf("%v: %s", err, said)
		}
	}
}
