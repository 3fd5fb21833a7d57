//go:build unix

package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// witnessKey is one that tests and their children share.
func witnessKey() (ed25519.PrivateKey, error) {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)), nil
}

func public(t testing.TB) ed25519.PublicKey {
	t.Helper()
	key, err := witnessKey()
	if err != nil {
		t.Fatal(err)
	}
	return key.Public().(ed25519.PublicKey)
}

func witness(t testing.TB, o audit.WitnessOptions) *audit.Witness {
	t.Helper()
	if o.Key == nil {
		o.Key = witnessKey
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	w, err := audit.NewWitness(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sign(t testing.TB, w *audit.Witness) checkpoint.Signed {
	t.Helper()
	signed, err := w.Sign(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func intents(t testing.TB, l *audit.Log, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := l.Intent(t.Context(), audittest.Record(fmt.Sprint("req_", i))); err != nil {
			t.Fatal(err)
		}
	}
}

// anchored makes a trail of two writers with checkpoints, and returns the last
// one as it was kept elsewhere.
func anchored(t testing.TB) (dir string, outside []byte) {
	t.Helper()
	dir = t.TempDir()
	cli := audittest.Options(dir)
	cli.Slot, cli.Shared = "cli", true
	proxy, shared := audittest.Open(t, audittest.Options(dir)), audittest.Open(t, cli)
	w := witness(t, audit.WitnessOptions{Dir: dir, Own: proxy})
	intents(t, proxy, 0, 3)
	intents(t, shared, 0, 2)
	sign(t, w)
	intents(t, proxy, 3, 6)
	audittest.Shut(t, proxy)
	audittest.Shut(t, shared)
	return dir, sign(t, w).Line
}

func segmentIn(dir, slot string) string { return filepath.Join(dir, slot, "00000001.jsonl") }

// editLast changes the last record of a slot, which no other is chained to.
func editLast(t testing.TB, dir, slot string) {
	t.Helper()
	data, err := os.ReadFile(segmentIn(dir, slot))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(data, []byte("api.github.com"))
	copy(data[at:], "api.gitlab.com")
	if err := os.WriteFile(segmentIn(dir, slot), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// cutTail takes n records off the end of a file of lines.
func cutTail(t testing.TB, path string, n int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if err := os.WriteFile(path, bytes.Join(lines[:len(lines)-1-n], nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What the chain alone does not show, a checkpoint does: it names the writer and
// the first record that is not what it was.
func TestCheckpointsShowWhatChainsCannot(t *testing.T) {
	for _, c := range []struct {
		name    string
		tamper  func(t *testing.T, dir string)
		outside bool // only the checkpoint that was kept elsewhere shows it
		kind    proof.ProblemKind
		slot    string
		seq     uint64
	}{
		{"last record edited", func(t *testing.T, dir string) { editLast(t, dir, "proxy") }, false, proof.ProblemEdited, "proxy", 6},
		{"last record of the other edited", func(t *testing.T, dir string) { editLast(t, dir, "cli") }, false, proof.ProblemEdited, "cli", 2},
		{"tail cut off", func(t *testing.T, dir string) { cutTail(t, segmentIn(dir, "proxy"), 2) }, false, proof.ProblemCut, "proxy", 5},
		{"all records cut off", func(t *testing.T, dir string) { cutTail(t, segmentIn(dir, "proxy"), 6) }, false, proof.ProblemCut, "proxy", 1},
		{"a writer removed", func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "cli")); err != nil {
				t.Fatal(err)
			}
		}, false, proof.ProblemWriter, "cli", 1},
		{"tail and checkpoint cut off", func(t *testing.T, dir string) {
			cutTail(t, segmentIn(dir, "proxy"), 3)
			cutTail(t, filepath.Join(dir, "checkpoints.jsonl"), 1)
		}, true, proof.ProblemCut, "proxy", 4},
		{"tail cut off, all checkpoints removed", func(t *testing.T, dir string) {
			cutTail(t, segmentIn(dir, "proxy"), 1)
			if err := os.Remove(filepath.Join(dir, "checkpoints.jsonl")); err != nil {
				t.Fatal(err)
			}
		}, true, proof.ProblemCut, "proxy", 6},
		{"a checkpoint edited", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "checkpoints.jsonl")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Replace(data, []byte(`"seq":6`), []byte(`"seq":5`), 1), 0o600); err != nil {
				t.Fatal(err)
			}
		}, false, proof.ProblemClaim, "", 0},
		{"all signed again with another key", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "checkpoints.jsonl")); err != nil {
				t.Fatal(err)
			}
			cutTail(t, segmentIn(dir, "proxy"), 1)
			sign(t, witness(t, audit.WitnessOptions{Dir: dir, Key: func() (ed25519.PrivateKey, error) {
				_, key, err := ed25519.GenerateKey(nil)
				return key, err
			}}))
		}, false, proof.ProblemClaim, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, line := anchored(t)
			trust := proof.Trust{Key: public(t)}
			if report, err := proof.Verify(t.Context(), dir, trust); err != nil || !report.OK || report.Anchor != proof.AnchoredHere || !report.Proven {
				t.Fatalf("before: %v\n%s", err, report)
			}
			c.tamper(t, dir)
			report, err := proof.Verify(t.Context(), dir, trust)
			if err != nil {
				t.Fatal(err)
			}
			if c.outside != report.OK {
				t.Errorf("without the anchor:\n%s", report)
			}
			if c.outside {
				trust.Anchors = []proof.Outside{{Name: "kept", Data: append([]byte("{\"other\":1}\n"), append(line, '\n')...)}}
				if report, err = proof.Verify(t.Context(), dir, trust); err != nil {
					t.Fatal(err)
				}
			}
			first, bad := report.First()
			if !bad || first.Kind != c.kind || first.Slot != c.slot || first.Sequence != c.seq {
				t.Errorf("found %+v, want %s of record %d of %q\n%s", first, c.kind, c.seq, c.slot, report)
			}
			if strings.Contains(report.String(), "\nok") {
				t.Errorf("said to be well:\n%s", report)
			}
		})
	}
}

func TestAnAnchorOutsideVouchesForTheWhole(t *testing.T) {
	dir, line := anchored(t)
	report, err := proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "kept", Data: line}}})
	if err != nil || !report.OK || report.Anchor != proof.AnchoredOutside || report.Proven {
		t.Errorf("%v\n%s", err, report)
	}
	for _, s := range report.Slots {
		if s.Anchored != s.Last {
			t.Errorf("%s is anchored to %d of %d", s.Slot, s.Anchored, s.Last)
		}
	}
	report, err = proof.Verify(t.Context(), dir, proof.Trust{Anchors: []proof.Outside{{Name: "empty"}}})
	if err != nil || report.OK {
		t.Errorf("an anchor without a checkpoint: %v\n%s", err, report)
	}
}

// A ledger that was cut is not signed as it is then: the old head stays named.
func TestACutLedgerIsNotSignedAgain(t *testing.T) {
	dir, _ := anchored(t)
	cutTail(t, segmentIn(dir, "proxy"), 2)
	w := witness(t, audit.WitnessOptions{Dir: dir})
	signed, err := w.Sign(t.Context(), true)
	if err == nil || !strings.Contains(err.Error(), "proxy") {
		t.Errorf("signed a ledger that was cut: %v", err)
	}
	if head, _ := signed.Head("proxy"); head.Sequence != 6 {
		t.Errorf("the newest checkpoint names record %d", head.Sequence)
	}
}

// Of a slot that another process holds, only what it has acknowledged is signed.
func TestAnothersHeadIsSignedOnceAcknowledged(t *testing.T) {
	dir := t.TempDir()
	l := audittest.Open(t, audittest.Options(dir))
	w := witness(t, audit.WitnessOptions{Dir: dir}) // not the witness of this log
	r := audittest.Record("req_1")
	if err := l.Intent(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if signed := sign(t, w); signed.Number != 0 {
		t.Errorf("signed %s, which its process may still take back", signed.Line)
	}
	l.Outcome(r)
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := sign(t, w)
	if head, _ := after.Head("proxy"); head.Sequence != 1 {
		t.Errorf("the head is record %d, want the intent", head.Sequence)
	}
}

// place is an anchor that can be told to fail.
type place struct {
	mu    sync.Mutex
	fail  error
	lines [][]byte
}

func (p *place) Name() string { return "place" }

func (p *place) Export(_ context.Context, line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fail == nil {
		p.lines = append(p.lines, bytes.Clone(line))
	}
	return p.fail
}

func (p *place) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.lines)
}

// A running witness signs at the start, while records come, and at the end, and
// sends what it signed; a place that fails shows, and gets the next one.
func TestWitnessSignsAtStartOnTheWayAndAtTheEnd(t *testing.T) {
	dir, p := t.TempDir(), &place{}
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock = clock.Now
	l := audittest.Open(t, o)
	intents(t, l, 0, 1)
	told := make(chan error, 10)
	w := witness(t, audit.WitnessOptions{
		Dir: dir, Own: l, Clock: clock.Now, After: clock.After, Anchors: []audit.Anchor{p},
		OnError: func(err error) { told <- err },
	})
	w.Start()
	if err := step(clock, func() bool { return p.count() == 1 }); err != nil {
		t.Fatal("nothing at the start")
	}
	p.mu.Lock()
	p.fail = errors.New("unreachable")
	p.mu.Unlock()
	intents(t, l, 1, 2)
	if err := step(clock, func() bool { return w.Problem() != "" }); err != nil {
		t.Fatal("nothing on the way")
	}
	if err := <-told; !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("told %v", err)
	}
	p.mu.Lock()
	p.fail = nil
	p.mu.Unlock()
	if err := step(clock, func() bool { return p.count() == 2 && w.Problem() == "" }); err != nil {
		t.Fatalf("not sent again: %q", w.Problem())
	}
	intents(t, l, 2, 4)
	audittest.Shut(t, l)
	if err := errors.Join(w.Close(t.Context()), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t), Anchors: []proof.Outside{{Name: "place", Data: bytes.Join(p.lines, []byte("\n"))}}})
	if err != nil || !report.OK || report.Slots[0].Anchored != 4 || p.count() != 3 {
		t.Errorf("%d were sent, %v\n%s", p.count(), err, report)
	}
	if n := len(told); n > 0 {
		t.Errorf("told %d more errors", n)
	}
}

// Killed at any moment, a trail with its checkpoints verifies, and is gone on with.
func TestKilledWhileSigningVerifies(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		cmd := command(t, "witness", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		seen := make([]byte, 1)
		for range 20 + 13*round { // checkpoints
			if _, err := out.Read(seen); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)})
		if err != nil || !report.OK || report.Anchor != proof.AnchoredHere {
			t.Fatalf("round %d: %v\n%s", round, err, report)
		}
	}
	// A crash in the middle of a line, which a kill seldom is.
	book := filepath.Join(dir, "checkpoints.jsonl")
	data, err := os.ReadFile(book)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{len(data) - 1, len(data) - 100} {
		if err := os.WriteFile(book, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		sign(t, witness(t, audit.WitnessOptions{Dir: dir}))
		report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)})
		if err != nil || !report.OK {
			t.Fatalf("cut to %d: %v\n%s", size, err, report)
		}
	}
}

// Old segments go whole; the checkpoint that names where the chain begins then is
// there before, and it cannot be used to hide more.
func TestRetentionKeepsTheChain(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 1 // every group begins a segment
	l := audittest.Open(t, o)
	gone := map[string]uint64{}
	w := witness(t, audit.WitnessOptions{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour, Forget: func(_ context.Context, slot string, upTo uint64) error {
		gone[slot] = upTo
		return nil
	}})
	settled := func(from, to int) {
		for i := from; i < to; i++ {
			r := audittest.Record(fmt.Sprint("req_", i))
			if err := l.Intent(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			l.Outcome(r)
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	settled(0, 5)
	long := audittest.Record("req_open")
	if err := l.Intent(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	settled(5, 6)
	sign(t, w)
	report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)})
	if err != nil || !report.OK {
		t.Fatalf("%v\n%s", err, report)
	}
	first := report.Slots[0].First
	if first == 1 || gone["proxy"] != first-1 || report.Slots[0].GivenUp != first-1 {
		t.Errorf("records from %d on are left, %v given up\n%s", first, gone, report)
	}
	if long.Sequence < first {
		t.Error("an intent that has no outcome yet was given up")
	}
	l.Outcome(long)
	settled(6, 7)
	clock.Advance(2 * time.Hour)
	audittest.Shut(t, l)
	sign(t, w) // nobody writes to the slot any more: its last segment goes as well
	sign(t, w)
	if report, err = proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)}); err != nil || !report.OK || report.Slots[0].Segments != 1 || report.Slots[0].Records != 1 {
		t.Fatalf("%v\n%s", err, report)
	}
	again := audittest.Open(t, o)
	if err := again.Intent(t.Context(), audittest.Record("req_next")); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, again)
	if report, err = proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)}); err != nil || !report.OK {
		t.Fatalf("gone on with: %v\n%s", err, report)
	}
	files, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	if report, err = proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)}); err != nil || report.OK {
		t.Errorf("more than was given up is gone: %v\n%s", err, report)
	}
}

// A crash between the checkpoint and the last removal leaves files that belong to
// nobody: they are no fault, and go the next time.
func TestRetentionThatWasCutShort(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 1
	l := audittest.Open(t, o)
	for i := range 4 {
		if err := l.Event(t.Context(), record.Event{Kind: fmt.Sprint("e", i)}); err != nil {
			t.Fatal(err)
		}
	}
	kept := map[string][]byte{}
	files, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if kept[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(2 * time.Hour)
	w := witness(t, audit.WitnessOptions{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour})
	sign(t, w)
	left, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
	if err != nil || len(left) != 1 {
		t.Fatalf("%v are left, %v", left, err)
	}
	for n := len(files) - 2; n >= 0; n-- { // as if the removal had come that far only
		if err := os.WriteFile(files[n], kept[files[n]], 0o600); err != nil {
			t.Fatal(err)
		}
		if report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)}); err != nil || !report.OK {
			t.Errorf("with %d files that were to go: %v\n%s", len(files)-1-n, err, report)
		}
	}
	sign(t, w)
	if left, err = filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl")); err != nil || len(left) != 1 {
		t.Errorf("%v are left, %v", left, err)
	}
}

func TestWitnessRefusesWhatIsMissing(t *testing.T) {
	for name, o := range map[string]audit.WitnessOptions{
		"Dir":     {Key: witnessKey, Clock: time.Now},
		"Key":     {Dir: "x", Clock: time.Now},
		"Clock":   {Dir: "x", Key: witnessKey},
		"Anchors": {Dir: "x", Key: witnessKey, Clock: time.Now, Anchors: []audit.Anchor{nil}},
	} {
		if _, err := audit.NewWitness(o); err == nil || !regexp.MustCompile(name).MatchString(err.Error()) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
