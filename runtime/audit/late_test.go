//go:build unix

package audit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// modes are the kinds of log that a required sink can fail for.
var modes = map[string]func(*audit.Options){
	"proxy":      func(*audit.Options) {},
	"cli":        func(o *audit.Options) { o.Slot, o.Shared = "cli", true },
	"sinks last": func(o *audit.Options) { o.SinksLast = true },
}

// recorded reports whether a line of kind has a text.
func recorded(lines []string, kind, text string) bool {
	return slices.ContainsFunc(lines, func(line string) bool {
		return strings.Contains(line, `"kind":"`+kind+`"`) && strings.Contains(line, text)
	})
}

// How a request ended is in the ledger soon, also while a required sink is gone: a kill then
// makes none of them unknown, and the sink gets all in order when it is back.
func TestAKillWhileTheSinkIsGoneTakesNoOutcome(t *testing.T) {
	for name, as := range modes {
		t.Run(name, func(t *testing.T) {
			m := &memory{required: true}
			o, clock := with(t.TempDir(), m)
			as(&o)
			l := audittest.Open(t, o)
			under := audittest.Record("req_1")
			if err := l.Intent(t.Context(), under); err != nil {
				t.Fatal(err)
			}
			m.set(errors.New("gone"))
			refused := audittest.Record("req_2")
			if err := l.Intent(t.Context(), refused); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Fatalf("an intent without the sink: %v", err)
			}
			refused.Err = &runtime.Error{Code: runtime.CodeAuditUnavailable}
			l.Outcome(under)
			l.Outcome(refused)
			l.Note(record.Event{Kind: "policy.changed"})
			late := audittest.Record("req_3") // which has no intent
			late.Err = refused.Err
			l.Outcome(late)
			dir := ""
			if err := audittest.Step(clock, func() bool {
				h := l.Health() // durable, and told of
				dir = killed(t, o.Dir)
				return h.Sequence > 3 && h.Kept == 0 && h.Sinks[0].Queue >= 3 && recorded(ledgerOf(t, dir, o.Slot), "refusal", "req_3")
			}); err != nil {
				t.Fatalf("the ledger has\n%s\n%+v", strings.Join(ledgerOf(t, dir, o.Slot), "\n"), l.Health())
			}
			lines := ledgerOf(t, dir, o.Slot)
			if !recorded(lines, "outcome", `"intent":1,`) || !recorded(lines, "event", "policy.changed") {
				t.Errorf("the ledger has\n%s", strings.Join(lines, "\n"))
			}
			if h := l.Health(); !h.Refusing || h.Lost != 0 {
				t.Errorf("%+v", h)
			}
			// The first log lives on: its sink stays gone, and the next one has what that got.
			next := &memory{required: true, got: slices.Clone(m.got)}
			o.Dir, o.Sinks = dir, []outlet.Sink{next}
			l = audittest.Open(t, o)
			audittest.Intents(t, l, 4, 5)
			audittest.Shut(t, l)
			all := ledgerOf(t, dir, o.Slot)
			if repeated := whole(t, next.has(), all); repeated != 0 || recorded(all, "outcome", "unknown") {
				t.Errorf("%d lines came again; the ledger has\n%s", repeated, strings.Join(all, "\n"))
			}
			audittest.Verified(t, dir)
		})
	}
}

// What the end of a process writes while a required sink is gone, the others get.
func TestTheOtherSinksGetTheLastOutcomes(t *testing.T) {
	for name, as := range modes {
		t.Run(name, func(t *testing.T) {
			gone, other := &memory{required: true}, &memory{}
			o, _ := with(t.TempDir(), gone, other)
			as(&o)
			l := audittest.Open(t, o)
			under := audittest.Record("req_1")
			if err := l.Intent(t.Context(), under); err != nil {
				t.Fatal(err)
			}
			gone.set(errors.New("gone"))
			if err := l.Intent(t.Context(), audittest.Record("req_2")); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Fatalf("an intent without the sink: %v", err)
			}
			l.Outcome(under)
			l.Note(record.Event{Kind: "policy.changed"})
			audittest.Shut(t, l)
			if got, all := other.has(), ledgerOf(t, o.Dir, o.Slot); !slices.Equal(got, all) || !recorded(all, "outcome", `"intent":1,`) {
				t.Errorf("it has\n%s\nthe ledger\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
			}
		})
	}
}

// What was kept while the ledger failed is written as soon as it can be, whatever the sink
// does then.
func TestASinkKeepsNothingFromALedgerThatIsBack(t *testing.T) {
	m := &memory{required: true}
	o, clock := with(t.TempDir(), m)
	l := audittest.Open(t, o)
	under := audittest.Record("req_1")
	if err := l.Intent(t.Context(), under); err != nil {
		t.Fatal(err)
	}
	l.Fail()
	if err := l.Intent(t.Context(), audittest.Record("req_2")); err == nil {
		t.Fatal("an intent passed without the ledger")
	}
	m.set(errors.New("gone"))
	l.Outcome(under)
	if err := audittest.Step(clock, func() bool {
		return l.Health().Kept == 0 && recorded(ledgerOf(t, o.Dir, "proxy"), "outcome", `"intent":1,`)
	}); err != nil || l.Ready() == nil {
		t.Fatalf("%v: %+v", err, l.Health())
	}
	m.set(nil)
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	audittest.Shut(t, l)
	if repeated := whole(t, m.has(), ledgerOf(t, o.Dir, "proxy")); repeated != 0 {
		t.Errorf("%d lines came again", repeated)
	}
	audittest.Verified(t, o.Dir)
}

// What takes a right away waits for no sink: the disk has it when nobody has asked the sink
// yet, and while that fails; other events are refused then. What was noted before stands before
// it. A sink that is well gets it by itself, at the end at the latest.
func TestWhatTakesARightAwayNeedsTheLedgerAlone(t *testing.T) {
	for name, as := range modes {
		t.Run(name, func(t *testing.T) {
			m := &memory{required: true, gate: make(chan struct{}, 99)} // hangs
			o, _ := with(t.TempDir(), m)
			as(&o)
			l := audittest.Open(t, o)
			revoke := func(n int) {
				t.Helper()
				l.Note(record.Event{Kind: "noted", Fields: map[string]string{"before": fmt.Sprint(n)}})
				if err := l.Insist(record.Event{Kind: "token.revoke", Fields: map[string]string{"n": fmt.Sprint(n)}}); err != nil {
					t.Fatal(err)
				}
				lines := ledgerOf(t, killed(t, o.Dir), o.Slot)
				if k := len(lines); k < 2 || !strings.Contains(lines[k-1], fmt.Sprintf(`"n":"%d"`, n)) || !strings.Contains(lines[k-2], fmt.Sprintf(`"before":"%d"`, n)) {
					t.Fatalf("the ledger has\n%s", strings.Join(lines, "\n"))
				}
				if seq, _, _ := l.Tip(); seq != uint64(len(lines)) {
					t.Errorf("of %d records %d are durable", len(lines), seq)
				}
			}
			revoke(0)
			if m.lines() != "" {
				t.Error("the sink was waited for")
			}
			for range 20 {
				m.gate <- struct{}{}
			}
			if err := l.Flush(t.Context()); err != nil || whole(t, m.has(), ledgerOf(t, o.Dir, o.Slot)) != 0 {
				t.Errorf("after a flush the sink has\n%s\n%v", m.lines(), err)
			}
			m.set(errors.New("gone"))
			revoke(1)
			if err := l.Flush(t.Context()); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Errorf("a flush without the sink: %v", err)
			}
			revoke(2)
			if err := l.Event(t.Context(), record.Event{Kind: "token.create"}); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Errorf("what gives a right: %v", err)
			}
			audittest.Shut(t, l)
			m.set(nil)
			close(m.gate)
			l = audittest.Open(t, o)
			audittest.Intents(t, l, 4, 5)
			if err := l.Insist(record.Event{Kind: "token.revoke"}); err != nil {
				t.Error(err)
			}
			audittest.Shut(t, l)
			if repeated := whole(t, m.has(), ledgerOf(t, o.Dir, o.Slot)); repeated != 0 || strings.Contains(m.lines(), "token.create") {
				t.Errorf("%d lines came again:\n%s", repeated, m.lines())
			}
			if err := l.Insist(record.Event{Kind: "token.revoke"}); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// Where the ledger fails there is no record, and the error is about that, whatever a sink
// does beside. What was noted before is not lost.
func TestWhatTakesARightAwayNeedsTheLedger(t *testing.T) {
	m := &memory{required: true}
	o, clock := with(t.TempDir(), m)
	l := audittest.Open(t, o)
	m.set(errors.New("gone"))
	if err := l.Event(t.Context(), record.Event{Kind: "a"}); err == nil {
		t.Fatal("recorded without the sink")
	}
	l.Fail()
	l.Note(record.Event{Kind: "noted"})
	for range 2 {
		if err := l.Insist(record.Event{Kind: "token.revoke"}); err == nil || strings.Contains(fmt.Sprint(runtime.AsError(err).Err), "gone") {
			t.Errorf("without the ledger: %v", err)
		}
	}
	if err := audittest.Step(clock, func() bool { return recorded(ledgerOf(t, o.Dir, "proxy"), "event", "noted") }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	if recorded(ledgerOf(t, o.Dir, "proxy"), "event", "token.revoke") {
		t.Error("it is recorded")
	}
}

// What a process that was killed while it wrote the marks anew has left beside them goes at
// the next start, of its own slot and of those that nobody writes to. What somebody may be
// writing stays, and so does what is not kimbap's.
func TestMarksThatWereNotFinishedAreRemoved(t *testing.T) {
	for _, slot := range []string{"proxy", "cli"} {
		t.Run(slot, func(t *testing.T) {
			dir, m := behind(t, "run")
			o, _ := with(dir, m)
			o.Slot = "serve"
			serving := audittest.Open(t, o)                   // holds its slot
			for _, name := range []string{"mcp", "proxy-2"} { // which have no marks yet
				o.Sinks, o.Slot = nil, name
				audittest.Shut(t, audittest.Open(t, o))
			}
			own, others := []string{slot + ".sinks.new-1", slot + ".sinks.new-4294967295"}, []string{"run.sinks.new-2", "mcp.sinks.new-3", "proxy-2.sinks.new-4"}
			kept := []string{"serve.sinks.new-5", "run.sinks.new-old", "run.sinks.newer", "my.run.sinks.new-7"}
			for _, name := range slices.Concat(own, others, kept) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			o.Sinks, o.Slot, o.Shared = []outlet.Sink{m}, slot, slot == "cli"
			l := audittest.Open(t, o)
			if err := l.Event(t.Context(), record.Event{Kind: "a"}); err != nil {
				t.Fatal(err)
			}
			if o.Shared { // which leaves other slots to who serves
				kept, others = append(kept, others...), nil
			}
			for _, name := range slices.Concat(own, others) {
				if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s stays: %v", name, err)
				}
			}
			for _, name := range kept {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			audittest.Shut(t, l)
			audittest.Shut(t, serving)
			whole(t, m.has()[:len(ledgerOf(t, dir, "run"))], ledgerOf(t, dir, "run"))
		})
	}
}

// turn takes the turn at a shared slot as another process does, until the result is called.
func turn(t *testing.T, dir, slot string) (end func()) {
	t.Helper()
	lock, err := holder.Open(dir, slot)
	if err == nil {
		err = lock.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = lock.Close() }
}

// Who finds the turn at a shared slot taken begins when it comes, and the sinks get all in
// order then. Who only reads needs none.
func TestAStartNeedsNoTurn(t *testing.T) {
	m, other := &memory{required: true}, &memory{}
	o := audittest.Options(t.TempDir())
	o.Slot, o.Shared = "cli", true
	audittest.Intents(t, audittest.Open(t, o), 0, 1) // which this process has still open
	o.Sinks = []outlet.Sink{m, other}
	end := turn(t, o.Dir, "cli")
	reads, writes := audittest.Open(t, o), audittest.Open(t, o)
	if err := errors.Join(reads.Ready(), writes.Ready()); err != nil {
		t.Error(err)
	}
	audittest.Shut(t, reads)
	passed := make(chan error)
	go func() { passed <- writes.Intent(context.Background(), audittest.Record("req_1")) }()
	select {
	case err := <-passed:
		t.Fatalf("out of turn: %v", err)
	default:
	}
	end()
	if err := <-passed; err != nil {
		t.Fatal(err)
	}
	audittest.Intents(t, writes, 2, 3)
	audittest.Shut(t, writes)
	lines := ledgerOf(t, o.Dir, "cli")
	if len(lines) != 3 || !slices.Equal(m.has(), lines[1:]) || other.lines() != m.lines() {
		t.Errorf("the ledger has\n%s\nand a new sink\n%s", strings.Join(lines, "\n"), m.lines())
	}
	audittest.Verified(t, o.Dir)
}

// Who waits in vain is told what to do, and who is in the way. Outcomes stay in memory, and
// are written when the turn comes.
func TestATurnThatNeverComes(t *testing.T) {
	o, clock := with(t.TempDir())
	o.Slot, o.Shared = "cli", true
	l := audittest.Open(t, o)
	r := audittest.Record("req_1")
	if err := l.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	end := turn(t, o.Dir, "cli")
	err := l.Insist(record.Event{Kind: "token.revoke"})
	e := runtime.AsError(err)
	if e == nil || e.Code != runtime.CodeAuditUnavailable || !strings.Contains(e.Hint, "end that one") || !strings.Contains(e.Err.Error(), "cli.lock") {
		t.Fatalf("%v: %+v", err, e)
	}
	if goruntime.GOOS == "linux" && !strings.Contains(e.Err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("nobody knows who is in the way: %v", e.Err)
	}
	l.Outcome(r)
	if err := audittest.Step(clock, func() bool { return l.Health().Kept == 1 }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	end()
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	audittest.Shut(t, l)
	if lines := ledgerOf(t, o.Dir, "cli"); !recorded(lines, "outcome", `"intent":1,`) || recorded(lines, "event", "token.revoke") {
		t.Errorf("the ledger has\n%s", strings.Join(lines, "\n"))
	}
	audittest.Verified(t, o.Dir)
}

// What was kept by a process that never had its turn before its end is written then, and
// the required sinks, which are closed by that time, lose no mark by it: they get it with all
// else from the next one.
func TestATurnThatComesAtTheEnd(t *testing.T) {
	m := &memory{required: true}
	o, _ := with(t.TempDir(), m)
	o.Slot, o.Shared = "cli", true
	first := audittest.Open(t, o)
	audittest.Intents(t, first, 0, 1)
	m.set(errors.New("gone"))
	if err := first.Insist(record.Event{Kind: "token.revoke"}); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, first)
	end := turn(t, o.Dir, "cli")
	l := audittest.Open(t, o)
	if err := l.Insist(record.Event{Kind: "vault.lock"}); err == nil {
		t.Fatal("it had its turn")
	}
	l.Note(record.Event{Kind: "vault.lock"})
	end()
	if err := l.Close(context.Background()); err != nil {
		t.Errorf("the ledger has all that was kept: %v", err)
	}
	if !recorded(ledgerOf(t, o.Dir, "cli"), "event", "vault.lock") {
		t.Errorf("the ledger has\n%s", strings.Join(ledgerOf(t, o.Dir, "cli"), "\n"))
	}
	m.set(nil)
	l = audittest.Open(t, o)
	audittest.Intents(t, l, 1, 2)
	audittest.Shut(t, l)
	whole(t, m.has(), ledgerOf(t, o.Dir, "cli"))
	audittest.Verified(t, o.Dir)
}

// unreadable puts something in the place of a file that cannot be opened.
func unreadable(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.Rename(path, path+".away"), os.Symlink(path, path)); err != nil {
		t.Fatal(err)
	}
}

// Records that a sink lacks and that cannot be read, of a slot that nobody writes to, stop
// requests. The error names the file, the advice says what to do, and that is enough: without
// the file they are lost, which the trail says where it can know, and the sink gets the rest.
func TestRecordsThatCannotBeReadHaveAWayOut(t *testing.T) {
	for name, number := range map[string]int{"in the midst": 2, "at the end": 0} {
		t.Run(name, func(t *testing.T) {
			dir, m := behind(t, "run")
			had := m.has()
			files, err := filepath.Glob(filepath.Join(dir, "run", "*.jsonl"))
			if err != nil || len(files) < 3 {
				t.Fatal(files, err)
			}
			file := files[(number-1+len(files))%len(files)]
			unreadable(t, file)
			o, clock := with(dir, m)
			l := audittest.Open(t, o)
			e := runtime.AsError(l.Intent(t.Context(), audittest.Record("req_3")))
			if e == nil || e.Code != runtime.CodeAuditUnavailable || !strings.Contains(fmt.Sprint(e.Err), file) || !strings.Contains(e.Hint, "kimbap status") || strings.Contains(e.Hint, dir) {
				t.Fatalf("%+v", e)
			}
			if got := m.has(); !slices.Equal(got, had) {
				t.Errorf("the sink got\n%s", strings.Join(got[len(had):], "\n"))
			}
			if err := os.Remove(file); err != nil { // as it was moved away
				t.Fatal(err)
			}
			if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
				t.Fatalf("%+v", l.Health())
			}
			audittest.Shut(t, l)
			got := m.has()[len(had):]
			if number > 0 && (!recorded(got, "event", "audit.sink_lost") || !recorded(got, "event", "policy.changed")) {
				t.Errorf("the sink got\n%s", strings.Join(got, "\n"))
			}
			if number == 0 && !intended(got, "req_2") {
				t.Errorf("the sink got\n%s", strings.Join(got, "\n"))
			}
		})
	}
}

// What cannot be read of a slot that no sink there is has anything of stops nobody.
func TestASlotThatNoSinkHasStopsNobody(t *testing.T) {
	dir, _ := behind(t, "run")
	files, err := filepath.Glob(filepath.Join(dir, "run", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	unreadable(t, files[len(files)-1])
	told := make(chan error, 9)
	for _, sinks := range [][]outlet.Sink{nil, {&named{memory: memory{required: true}, name: "other"}}} {
		o, _ := with(dir, sinks...)
		o.OnError = func(err error) { told <- err }
		l := audittest.Open(t, o)
		audittest.Intents(t, l, 3, 4)
		audittest.Shut(t, l)
		if len(told) != 1 || !strings.Contains((<-told).Error(), files[len(files)-1]) {
			t.Errorf("nobody was told, or often")
		}
	}
}
