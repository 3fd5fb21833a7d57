//go:build unix

package audit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
)

// bySlot is a best-effort sink that keeps which slot its lines are of.
type bySlot struct{ memory }

func (b *bySlot) Write(ctx context.Context, slot string, lines [][]byte) error {
	for i, line := range lines {
		lines[i] = append([]byte(slot+" "), line...)
	}
	return b.memory.Write(ctx, slot, lines)
}

// in is a log of a slot of a folder.
func in(t *testing.T, dir, slot string, change func(*audit.Options)) *audit.Log {
	t.Helper()
	o := audittest.Options(dir)
	o.Slot = slot
	if change != nil {
		change(&o)
	}
	return audittest.Open(t, o)
}

// ends counts the outcomes in a folder.
func ends(t *testing.T, dir string) (known, unknown map[string]int) {
	t.Helper()
	known, unknown = map[string]int{}, map[string]int{}
	for _, e := range audittest.Entries(t, dir, history.Query{}) {
		switch {
		case e.Kind != "outcome":
		case strings.Contains(string(e.Line), `"unknown"`):
			unknown[e.Slot]++
		default:
			known[e.Slot]++
		}
	}
	return known, unknown
}

// Three processes were killed at the same time, and one is started again: what all three left
// open is known to be unknown, in the ledger and in the sinks, once. What lives is left alone,
// and so is a slot that processes have in turn.
func TestOneStartMarksWhatAllTheDeadLeftOpen(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	for range 3 {
		if err := in(t, from, "proxy", nil).Intent(t.Context(), audittest.Record("req_dead")); err != nil {
			t.Fatal(err)
		}
	}
	orderly := in(t, from, "run", nil)
	r := audittest.Record("req_done")
	if err := orderly.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	orderly.Outcome(r)
	audittest.Shut(t, orderly)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil { // what a kill leaves, whose locks nobody has
		t.Fatal(err)
	}
	shared := in(t, dir, "cli", func(o *audit.Options) { o.Shared = true })
	if err := shared.Intent(t.Context(), audittest.Record("req_alive")); err != nil {
		t.Fatal(err)
	}
	sink := &bySlot{}
	alive := in(t, dir, "proxy-2", func(o *audit.Options) { o.Sinks = []outlet.Sink{sink} })
	for range 2 {
		known, unknown := ends(t, dir)
		if unknown["proxy"] != 1 || unknown["proxy-2"] != 1 || unknown["proxy-3"] != 1 || unknown["cli"]+unknown["run"] != 0 || known["run"] != 1 {
			t.Errorf("outcomes %v, unknown %v", known, unknown)
		}
		if err := alive.Intent(t.Context(), audittest.Record("req_alive")); err != nil {
			t.Fatal(err)
		}
		audittest.Shut(t, in(t, dir, "proxy", nil)) // finds nothing more to do
	}
	audittest.Shut(t, alive)
	audittest.Shut(t, shared)
	for _, slot := range []string{"proxy ", "proxy-2 ", "proxy-3 "} {
		if !strings.Contains(sink.lines(), slot+"{") {
			t.Errorf("the sink has %s", sink.lines())
		}
	}
	audittest.Verified(t, dir)
}

// A required sink that had part of such a slot gets how it ended before anything passes.
func TestARequiredSinkGetsWhatTheDeadOfOtherSlotsLeftOpen(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	for range 2 {
		l := in(t, from, "run", func(o *audit.Options) { o.Sinks = []outlet.Sink{&memory{required: true}} })
		if err := l.Intent(t.Context(), audittest.Record("req_dead")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	m := &memory{required: true}
	l := in(t, dir, "proxy", func(o *audit.Options) { o.Sinks = []outlet.Sink{m} })
	if err := l.Ready(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(m.lines(), `"unknown"`); got != 2 {
		t.Errorf("the required sink knows of %d: %s", got, m.lines())
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
}

// A slot of the dead that cannot be read keeps nobody from starting, is told of, and is tried
// again at the next start.
func TestASlotOfTheDeadThatCannotBeRead(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	for range 2 {
		if err := in(t, from, "proxy", nil).Intent(t.Context(), audittest.Record("req_dead")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "proxy-2", "00000001.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append([]byte("not JSON"), whole[8:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	var told []string
	tell := func(o *audit.Options) { o.OnError = func(err error) { told = append(told, err.Error()) } }
	l := in(t, dir, "proxy", tell)
	if err := l.Intent(t.Context(), audittest.Record("req_next")); err != nil {
		t.Errorf("nothing passes: %v", err)
	}
	audittest.Shut(t, l)
	if len(told) != 1 || !strings.Contains(told[0], "proxy-2") {
		t.Errorf("told of: %q", told)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, in(t, dir, "proxy", nil))
	if _, unknown := ends(t, dir); unknown["proxy-2"] != 1 {
		t.Errorf("mended, and still not marked: %v", unknown)
	}
}

// Where the sinks make records durable, a power cut leaves of another slot less than the sink
// has: how what is left of it ended is written under these numbers anew, and not taken for sent.
func TestARequiredSinkGetsTheEndOfALedgerThatEndsBeforeItsMark(t *testing.T) {
	for _, left := range []int{2, 4} { // of five lines; as many outcomes come, to less and to more than the sink has
		m := &memory{required: true}
		o, _ := with(t.TempDir(), m)
		o.Slot, o.SinksLast = "run", true
		audittest.Intents(t, audittest.Open(t, o), 0, 5)
		dir := killed(t, o.Dir)
		path := filepath.Join(dir, "run", "00000001.jsonl")
		if err := os.WriteFile(path, []byte(strings.Join(ledgerOf(t, dir, "run")[:left], "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o, _ = with(dir, m)
		o.SinksLast = true
		l := audittest.Open(t, o)
		if err := l.Ready(); err != nil {
			t.Fatal(err)
		}
		audittest.Shut(t, l)
		all := ledgerOf(t, dir, "run")
		if got := m.has(); len(all) != 2*left || !slices.Equal(got[5:], all[left:]) {
			t.Errorf("after the cut the ledger has\n%s\nand the sink got\n%s", strings.Join(all[left:], "\n"), strings.Join(got[5:], "\n"))
		}
		audittest.Verified(t, dir)
	}
}

// So it is where the first to start has not got the sink, which others over the folder have.
func TestWhoHasNoSinkLeavesItTheEndOfALedgerThatEndsBeforeItsMark(t *testing.T) {
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.Slot, o.SinksLast = "run", true
	audittest.Intents(t, audittest.Open(t, o), 0, 5)
	dir := killed(t, o.Dir)
	path := filepath.Join(dir, "run", "00000001.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(ledgerOf(t, dir, "run")[:2], "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, in(t, dir, "proxy", func(o *audit.Options) { o.SinksElsewhere = []string{m.Name()} }))
	o, _ = with(dir, m)
	audittest.Shut(t, audittest.Open(t, o))
	if got, all := m.has(), ledgerOf(t, dir, "run"); len(all) != 4 || !slices.Equal(got[5:], all[2:]) {
		t.Errorf("the ledger has\n%s\nand the sink got\n%s", strings.Join(all, "\n"), strings.Join(got[5:], "\n"))
	}
}

// A slot that no required sink has anything of, and whose lock cannot be opened, as one of
// another user, stops nobody.
func TestASlotOfSomebodyElseStopsNobody(t *testing.T) {
	dir := t.TempDir()
	audittest.Shut(t, in(t, dir, "run", nil))
	lock := filepath.Join(dir, "run.lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(lock, 0o700); err != nil { // which opens for nobody, not for root either
		t.Fatal(err)
	}
	var told []string
	l := in(t, dir, "proxy", func(o *audit.Options) {
		o.Sinks = []outlet.Sink{&memory{required: true}}
		o.OnError = func(err error) { told = append(told, err.Error()) }
	})
	if err := l.Intent(t.Context(), audittest.Record("req_1")); err != nil {
		t.Error(err)
	}
	audittest.Shut(t, l)
	if fmt.Sprint(told) == "[]" || !strings.Contains(told[0], lock) {
		t.Errorf("told of %q", told)
	}
}
