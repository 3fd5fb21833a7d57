//go:build unix

package audit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func command(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "KIMBAP_AUDIT_CHILD="+role, "KIMBAP_AUDIT_DIR="+dir)
	cmd.Stderr = os.Stderr
	return cmd
}

func TestFullDiskRefusesKeepsOutcomesAndRecovers(t *testing.T) { // AU-001, AU-002
	dir := t.TempDir()
	if err := command(t, "full", dir).Run(); err != nil {
		t.Fatal(err)
	}
	audittest.Verified(t, dir)
	all := audittest.Entries(t, dir, history.Query{})
	if got := audittest.Kinds(all); got != "intent refusal outcome event intent" && got != "intent outcome refusal event intent" {
		// Read orders by time; the kept ones carry the time they happened at.
		t.Fatalf("the ledger holds %q", got)
	}
	for _, e := range all {
		if e.RequestID == "req_2" && e.Kind == "intent" {
			t.Error("the refused request has an intent")
		}
	}
}

func TestMissingFolderRefusesUntilItIsBack(t *testing.T) { // AU-001
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.SegmentSize, o.After = 1, clock.After // every group begins a segment
	l := audittest.Open(t, o)
	if err := l.Intent(t.Context(), audittest.Record("req_1")); err != nil {
		t.Fatal(err)
	}
	slot := filepath.Join(dir, "proxy")
	if err := os.Rename(slot, slot+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := l.Intent(t.Context(), audittest.Record("req_2")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Fatalf("Intent without a folder: %v", err)
	}
	if err := os.Rename(slot+"-away", slot); err != nil {
		t.Fatal(err)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("not recovered: %+v", l.Health())
	}
	if err := l.Intent(t.Context(), audittest.Record("req_3")); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
}

func TestFolderThatCannotBeUsedFailsOpen(t *testing.T) { // AU-001
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := audit.New(audittest.Options(file))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Open(t.Context()); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Fatalf("Open: %v", err)
	}
	if l.Ready() == nil {
		t.Error("ready after a failed Open")
	}
}

func TestCutLedgerIsNeverContinued(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.After = clock.After
	l := audittest.Open(t, o)
	for _, id := range []string{"req_1", "req_2"} {
		if err := l.Intent(t.Context(), audittest.Record(id)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "proxy", "00000001.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, int64(strings.Index(string(whole), "\n") + 1)} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if err := l.Intent(t.Context(), audittest.Record("req_3")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
			t.Fatalf("Intent on a ledger cut to %d bytes: %v", size, err)
		}
		for range 5 {
			clock.Advance(audit.RetryInterval)
			_ = l.Flush(t.Context())
		}
		if l.Ready() == nil {
			t.Fatalf("went on with a ledger cut to %d bytes", size)
		}
		if got, err := os.ReadFile(path); err != nil || int64(len(got)) != size {
			t.Fatalf("wrote to a ledger cut to %d bytes", size)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("not recovered with the ledger put back: %+v", l.Health())
	}
}

func TestKillUnderLoadLosesNoIntent(t *testing.T) { // AU-003
	for _, role := range []string{"load", "load-mild"} {
		t.Run(role, func(t *testing.T) { killUnderLoad(t, role) })
	}
}

func killUnderLoad(t *testing.T, role string) {
	dir := t.TempDir()
	var printed []string
	for range 6 {
		cmd := command(t, role, dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ids := bufio.NewScanner(out)
		for n := 0; ids.Scan(); n++ {
			printed = append(printed, ids.Text())
			if n == 400 {
				_ = cmd.Process.Kill()
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	}
	l := audittest.Open(t, audittest.Options(dir)) // cuts what the last one left, settles its intents
	audittest.Shut(t, l)
	if len(printed) < 6*400 {
		t.Fatalf("only %d records were made", len(printed))
	}
	report := audittest.Verified(t, dir)
	if len(report.Slots) != 1 || report.Slots[0].Torn {
		t.Errorf("slots: %+v", report.Slots)
	}
	intents, outcomes, unknown := map[string]int{}, map[string]int{}, 0
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		switch e.Kind {
		case "intent":
			intents[e.RequestID]++
		case "outcome":
			outcomes[e.RequestID]++
			if e.Code == "unknown" {
				unknown++
			}
		}
	}
	for _, id := range printed {
		if intents[id] != 1 {
			t.Fatalf("%s left, and has %d intents", id, intents[id])
		}
	}
	for id := range intents {
		if outcomes[id] != 1 {
			t.Fatalf("%s has %d outcomes", id, outcomes[id])
		}
	}
	if unknown == 0 {
		t.Error("six kills under load and nothing is unknown")
	}
}

func TestManyProcessesOneChainEach(t *testing.T) { // AU-005
	dir := t.TempDir()
	const processes = 3
	var wg sync.WaitGroup
	for range processes {
		for _, role := range []string{"write-proxy", "write-cli"} {
			cmd := command(t, role, dir)
			wg.Go(func() {
				if err := cmd.Run(); err != nil {
					t.Errorf("%s: %v", role, err)
				}
			})
		}
	}
	wg.Wait()
	report := audittest.Verified(t, dir)
	total, cli := uint64(0), uint64(0)
	for _, s := range report.Slots {
		if s.First != 1 || s.Last != s.Records {
			t.Errorf("slot %s has a gap: %+v", s.Slot, s)
		}
		if s.Slot == "cli" {
			cli = s.Records
		}
	}
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		if e.Kind != "event" {
			total++
		}
	}
	if want := uint64(2 * processes * 2 * writers * perGoer); total != want {
		t.Errorf("%d records, want %d", total, want)
	}
	if cli < processes*2*writers*perGoer {
		t.Errorf("the shared slot has %d records", cli)
	}
}

func TestSharedSlotSettlesOnlyTheDead(t *testing.T) {
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.Slot, o.Shared = "cli", true
	alive := audittest.Open(t, o)
	if err := alive.Intent(t.Context(), audittest.Record("req_alive")); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "hang-cli", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, audittest.Open(t, o))
	if got := audittest.Kinds(audittest.Entries(t, dir, history.Query{})); got != "intent intent" {
		t.Fatalf("both live, and the ledger holds %q", got)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	audittest.Shut(t, audittest.Open(t, o))
	audittest.Shut(t, audittest.Open(t, o))
	all := audittest.Entries(t, dir, history.Query{Kind: "outcome"})
	if len(all) != 1 || all[0].RequestID != "req_dead" || all[0].Code != "unknown" {
		t.Fatalf("outcomes: %+v", all)
	}
	audittest.Verified(t, dir)
}

func TestTornTailIsCutByTheNextWriter(t *testing.T) {
	for _, shared := range []bool{false, true} {
		dir := t.TempDir()
		o := audittest.Options(dir)
		o.Shared = shared
		l := audittest.Open(t, o)
		r := audittest.Record("req_1")
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		l.Outcome(r)
		audittest.Shut(t, l)
		path := filepath.Join(dir, "proxy", "00000001.jsonl")
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, werr := f.WriteString(`{"seq":3,"prev":"half a li`)
		if err := errors.Join(werr, f.Close()); err != nil {
			t.Fatal(err)
		}
		if report := audittest.Verified(t, dir); !report.Slots[0].Torn {
			t.Error("the torn line is not reported")
		}
		l = audittest.Open(t, o)
		if err := l.Intent(t.Context(), audittest.Record("req_2")); err != nil {
			t.Fatal(err)
		}
		audittest.Shut(t, l)
		if report := audittest.Verified(t, dir); report.Slots[0].Last != 3 || report.Slots[0].Torn {
			t.Errorf("report: %+v", report.Slots[0])
		}
	}
}

func TestCallerWhoLeavesIsLetGo(t *testing.T) {
	l := audittest.Open(t, audittest.Options(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 200 {
		r := audittest.Record("req_gone")
		err := l.Intent(ctx, r)
		if (err == nil) != (r.Sequence != 0) {
			t.Fatalf("Intent: %v, sequence %d", err, r.Sequence)
		}
		if err != nil && runtime.CodeOf(err) != runtime.CodeCanceled {
			t.Fatal(err)
		}
	}
}

// Who writes for itself may die of it: nobody waits for it for ever, nothing half
// written counts, and the next one goes on.
func TestAPanicWhileWritingRefusesAndRecovers(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	var left atomic.Int64 // calls of the clock until it panics
	now := o.Clock
	o.Clock = func() time.Time {
		if left.Add(-1) == 0 {
			panic("the clock is broken")
		}
		return now()
	}
	o.After = clock.After
	l := audittest.Open(t, o)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		left.Store(2) // the first is the line's, the second that of the group
		_ = l.Intent(t.Context(), audittest.Record("req_1"))
	}()
	if err := l.Intent(t.Context(), audittest.Record("req_2")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Fatalf("Intent after the panic: %v", err)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("not recovered: %+v", l.Health())
	}
	if err := l.Intent(t.Context(), audittest.Record("req_3")); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
	if got := audittest.Kinds(audittest.Entries(t, dir, history.Query{})); got != "event intent" {
		t.Errorf("the ledger holds %q", got)
	}
}

func TestIntentsOfADeadProcessAcrossSegmentsBecomeUnknown(t *testing.T) {
	dir := t.TempDir()
	o := audittest.Options(dir)
	o.SegmentSize = 3000
	l := audittest.Open(t, o)
	long := audittest.Record("req_long")
	if err := l.Intent(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		r := audittest.Record(fmt.Sprint("req_", i))
		if err := l.Intent(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		l.Outcome(r)
	}
	audittest.Shut(t, l) // without an outcome for req_long, as after a crash
	audittest.Shut(t, audittest.Open(t, o))
	audittest.Shut(t, audittest.Open(t, o))
	unknown := audittest.Entries(t, dir, history.Query{Code: "unknown"})
	if len(unknown) != 1 || unknown[0].RequestID != "req_long" || unknown[0].Agent != "local" || unknown[0].Action != "github.list-pulls" {
		t.Fatalf("unknown: %+v", unknown)
	}
	audittest.Verified(t, dir)
}
