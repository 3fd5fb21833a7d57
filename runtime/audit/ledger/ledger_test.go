package ledger_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// noon is when all records here are from, but where a test says otherwise.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func loaded(t *testing.T, o ledger.Options) *ledger.Ledger {
	t.Helper()
	if o.Slot == "" {
		o.Slot = "proxy"
	}
	l := ledger.New(o)
	t.Cleanup(l.Close)
	if err := l.Load(); err != nil {
		t.Fatal(err)
	}
	return l
}

func event(kind string, at time.Time) *ledger.Line {
	return &ledger.Line{Kind: record.KindEvent, At: at, Body: record.AppendEvent(nil, record.Event{Kind: kind}, at)}
}

func intent(id, process string) *ledger.Line {
	e := record.Encoder{Hash: audittest.Hashes{}, Process: process}
	return &ledger.Line{Kind: record.KindIntent, At: noon, Body: e.Intent(nil, audittest.Record(id), noon)}
}

func put(t *testing.T, l *ledger.Ledger, last bool, kinds ...string) {
	t.Helper()
	var group []*ledger.Line
	for _, kind := range kinds {
		group = append(group, event(kind, noon))
	}
	if err := l.Append(group, noon, last); err != nil {
		t.Fatal(err)
	}
}

func file(dir string, number int) string { return filepath.Join(dir, "proxy", segment.Name(number)) }

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// chained walks a chain from its beginning and returns what its records are.
func chained(t *testing.T, slot, text string) (kinds string, last segment.Digest) {
	t.Helper()
	last = segment.Genesis(slot)
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		link, err := segment.ParseLink([]byte(line))
		if err != nil || link.Sequence != uint64(i+1) || link.Previous != last {
			t.Fatalf("line %d: %+v %v: %s", i+1, link, err, line)
		}
		_, rest, _ := strings.Cut(line, `"event":"`)
		kind, _, _ := strings.Cut(rest, `"`)
		kinds, last = strings.TrimSpace(kinds+" "+kind), sha256.Sum256([]byte(line))
	}
	return kinds, last
}

// Groups stand in the order in which they were appended, each record behind the hash of the
// one before, and the last group makes durable what came before it too.
func TestGroupsAreChainedAndSyncedInOrder(t *testing.T) {
	dir := t.TempDir()
	l := loaded(t, ledger.Options{Dir: dir})
	if seq, hash := l.Tip(); seq != 0 || hash != segment.Genesis("proxy") || l.Behind() {
		t.Errorf("an empty one: record %d, %x", seq, hash)
	}
	put(t, l, false, "a", "b")
	first := l.Unsynced()
	if !l.Behind() || first != len(read(t, file(dir, 1))) {
		t.Errorf("%d bytes wait for a sync", first)
	}
	if err := l.Append([]*ledger.Line{event("c", noon), nil, event("d", noon)}, noon, false); err != nil { // nil: who had it was let go
		t.Fatal(err)
	}
	group := bytes.Join(l.Written(), nil)
	if l.Unsynced() != first+len(group) || !strings.HasSuffix(read(t, file(dir, 1)), string(group)) || len(l.Written()) != 2 {
		t.Errorf("%d bytes wait for a sync; the group is %s", l.Unsynced(), group)
	}
	put(t, l, true, "e")
	if l.Behind() {
		t.Errorf("%d bytes still wait for a sync", l.Unsynced())
	}
	kinds, last := chained(t, "proxy", read(t, file(dir, 1)))
	if seq, hash := l.Tip(); kinds != "a b c d e" || seq != 5 || hash != last {
		t.Errorf("%s; the tip is record %d, %x, want %x", kinds, seq, hash, last)
	}
	l.Close()
	again := loaded(t, ledger.Options{Dir: dir})
	put(t, again, true, "f")
	if kinds, _ := chained(t, "proxy", read(t, file(dir, 1))); kinds != "a b c d e f" {
		t.Errorf("after a new start: %s", kinds)
	}
}

// A full or old segment is followed by a new one, which begins behind the hash of the last,
// and only once all of that one is durable.
func TestASegmentIsLeftOnlyWhenItIsDurable(t *testing.T) {
	dir := t.TempDir()
	l := loaded(t, ledger.Options{Dir: dir, Limit: 200, Age: time.Hour})
	put(t, l, false, "a", "b")
	put(t, l, false, "c")
	group := bytes.Join(l.Written(), nil)
	if l.Number() != 2 || l.Unsynced() != len(group) {
		t.Errorf("segment %d, and %d bytes wait for a sync, want the %d of the new one", l.Number(), l.Unsynced(), len(group))
	}
	if err := l.Append([]*ledger.Line{event("d", noon.Add(time.Hour))}, noon.Add(time.Hour), true); err != nil {
		t.Fatal(err)
	}
	kinds, _ := chained(t, "proxy", read(t, file(dir, 1))+read(t, file(dir, 2))+read(t, file(dir, 3)))
	if kinds != "a b audit.segment c audit.segment d" {
		t.Errorf("the three hold %s", kinds)
	}
}

// A segment that somebody wrote to, or cut, is not written to any more. What was moved away
// is followed by a new one.
func TestItGoesOnOnlyBehindWhatItWrote(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 10) },
		"lengthened": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				_, err = f.WriteString("{}\n")
				_ = f.Close()
			}
			return err
		},
	} {
		dir := t.TempDir()
		l := loaded(t, ledger.Options{Dir: dir})
		put(t, l, true, "a", "b")
		if err := spoil(file(dir, 1)); err != nil {
			t.Fatal(err)
		}
		seq, hash := l.Tip()
		if err := l.Append([]*ledger.Line{event("c", noon)}, noon, true); err == nil || !strings.Contains(err.Error(), "somebody else changed it") {
			t.Errorf("%s: %v", name, err)
		}
		if now, same := l.Tip(); now != seq || same != hash || l.File() != nil {
			t.Errorf("%s: a group that was not written counts", name)
		}
		if err := l.Append([]*ledger.Line{event("c", noon)}, noon, true); err == nil {
			t.Errorf("%s: it is used without being reopened", name)
		}
		switch err := l.Reopen(); {
		case name == "cut" && (err == nil || !strings.Contains(err.Error(), "was cut or replaced")):
			t.Errorf("what was durable is gone: %v", err)
		case name == "lengthened" && err != nil:
			t.Errorf("what was durable is there: %v", err)
		}
	}
}

// Where a sync failed, the system may take for written what the disk never got: it is
// written again before anything follows it.
func TestWhatWasNotSyncedIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	l := loaded(t, ledger.Options{Dir: dir})
	put(t, l, true, "a")
	durable := len(read(t, file(dir, 1)))
	put(t, l, false, "b", "c")
	want := read(t, file(dir, 1))
	if err := os.WriteFile(file(dir, 1), []byte(want[:durable]+strings.Repeat("\x00", len(want)-durable)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, file(dir, 1)); got != want || !l.Behind() {
		t.Errorf("the file holds %q, want %q; behind: %v", got, want, l.Behind())
	}
	put(t, l, true, "d")
	if kinds, _ := chained(t, "proxy", read(t, file(dir, 1))); kinds != "a b c d" || l.Behind() {
		t.Errorf("%s; behind: %v", kinds, l.Behind())
	}
}

// So it is where a crash came between a new file and its first record, however long ago the
// request began.
func TestAnEmptyFileHidesNothingThatIsOpen(t *testing.T) {
	dir := t.TempDir()
	l := loaded(t, ledger.Options{Dir: dir, Limit: 200})
	if err := l.Append([]*ledger.Line{intent("req_long", holder.Process())}, noon, true); err != nil {
		t.Fatal(err)
	}
	put(t, l, true, "a")
	put(t, l, true, "b")
	l.Close()
	if err := os.WriteFile(file(dir, l.Number()+1), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	next := loaded(t, ledger.Options{Dir: dir})
	if err := next.Settle(noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if text := read(t, file(dir, l.Number()+1)); l.Number() < 3 || !strings.Contains(text, `"kind":"outcome","intent":1,`) {
		t.Errorf("behind file %d: %s", l.Number(), text)
	}
}

// What a dead process left open has an unknown end: in a slot of one process all of it, in a
// shared one that of processes which have certainly gone.
func TestWhatTheDeadLeftOpenIsSettledOnce(t *testing.T) {
	for slot, want := range map[string]int{"proxy": 2, "cli": 0} {
		dir, o := t.TempDir(), ledger.Options{Slot: slot, Shared: slot == "cli"}
		o.Dir = dir
		l := loaded(t, o)
		alive := holder.Process()
		group := []*ledger.Line{intent("req_one", alive), intent("req_two", alive), intent("req_done", alive)}
		if err := l.Append(group, noon, true); err != nil {
			t.Fatal(err)
		}
		done := audittest.Record("req_done")
		done.Sequence = group[2].Seq
		e := record.Encoder{Hash: audittest.Hashes{}}
		if err := l.Append([]*ledger.Line{{Kind: record.KindOutcome, Intent: done.Sequence, At: noon, Body: e.Outcome(nil, done, noon)}}, noon, true); err != nil {
			t.Fatal(err)
		}
		l.Close()
		for range 2 { // the second time there is nothing to settle
			next := loaded(t, o)
			if err := next.Settle(noon.Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			next.Close()
		}
		text := read(t, filepath.Join(dir, slot, segment.Name(1)))
		if got := strings.Count(text, `"result":"unknown"`); got != want {
			t.Errorf("%s: %d ends are unknown, want %d:\n%s", slot, got, want, text)
		}
		for i, id := range []string{"req_one", "req_two"}[:want] {
			if !strings.Contains(text, fmt.Sprintf(`"kind":"outcome","intent":%d,`, i+1)) {
				t.Errorf("%s: %s has no end:\n%s", slot, id, text)
			}
		}
		chained(t, slot, text)
	}
}
