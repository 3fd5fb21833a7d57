//go:build unix

package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
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

func newWitness(t testing.TB, o witness.Options) *witness.Witness {
	t.Helper()
	if o.Key == nil {
		o.Key = witnessKey
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	w, err := witness.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func sign(t testing.TB, w *witness.Witness) checkpoint.Signed {
	t.Helper()
	signed, err := w.Sign(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// A ledger that was cut is not signed as it is then: the old head stays named.
func TestACutLedgerIsNotSignedAgain(t *testing.T) {
	dir, _ := anchored(t)
	cutTail(t, segmentIn(dir, "proxy"), 2)
	w := newWitness(t, witness.Options{Dir: dir})
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
	w := newWitness(t, witness.Options{Dir: dir}) // not the witness of this log
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
	audittest.Intents(t, l, 0, 1)
	told := make(chan error, 10)
	w := newWitness(t, witness.Options{
		Dir: dir, Own: l, Clock: clock.Now, After: clock.After, Anchors: []witness.Anchor{p},
		OnError: func(err error) { told <- err },
	})
	w.Start()
	if err := audittest.Step(clock, func() bool { return p.count() == 1 }); err != nil {
		t.Fatal("nothing at the start")
	}
	p.mu.Lock()
	p.fail = errors.New("unreachable")
	p.mu.Unlock()
	audittest.Intents(t, l, 1, 2)
	if err := audittest.Step(clock, func() bool { return w.Problem() != "" }); err != nil {
		t.Fatal("nothing on the way")
	}
	if err := <-told; !strings.Contains(err.Error(), "unreachable") {
		t.Errorf("told %v", err)
	}
	p.mu.Lock()
	p.fail = nil
	p.mu.Unlock()
	if err := audittest.Step(clock, func() bool { return p.count() == 2 && w.Problem() == "" }); err != nil {
		t.Fatalf("not sent again: %q", w.Problem())
	}
	audittest.Intents(t, l, 2, 4)
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

// hung is a place that takes nothing, for as long as it is let.
type hung struct{ asked chan struct{} } // one each time it is asked

func (h hung) Name() string { return "hung" }

func (h hung) Export(ctx context.Context, _ []byte) error {
	h.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

// A place that does not answer keeps the last checkpoint from being sent there, and not
// from being signed.
func TestAPlaceThatHangsKeepsNoLastCheckpointFromBeingSigned(t *testing.T) {
	dir, place := t.TempDir(), hung{make(chan struct{})}
	l := audittest.Open(t, audittest.Options(dir))
	audittest.Intents(t, l, 0, 1)
	w := newWitness(t, witness.Options{Dir: dir, Own: l, Anchors: []witness.Anchor{place}})
	w.Start()
	<-place.asked
	audittest.Intents(t, l, 1, 3)
	audittest.Shut(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-place.asked; cancel() }() // who closes waits no longer
	if err := w.Close(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "hung") {
		t.Errorf("closed with %v", err)
	}
	last, _, err := checkpoint.In(dir).Last()
	if err != nil || len(last.Heads) != 1 || last.Heads[0].Sequence != 3 {
		t.Errorf("the last checkpoint is %+v, %v", last.Checkpoint, err)
	}
}

// Killed at any moment, a trail with its checkpoints verifies, and is gone on with.
func TestKilledWhileSigningVerifies(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		cmd := signer(t, dir)
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
		sign(t, newWitness(t, witness.Options{Dir: dir}))
		report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)})
		if err != nil || !report.OK {
			t.Fatalf("cut to %d: %v\n%s", size, err, report)
		}
	}
}

func TestWitnessRefusesWhatIsMissing(t *testing.T) {
	for name, o := range map[string]witness.Options{
		"Dir":     {Key: witnessKey, Clock: time.Now},
		"Key":     {Dir: "x", Clock: time.Now},
		"Clock":   {Dir: "x", Key: witnessKey},
		"Anchors": {Dir: "x", Key: witnessKey, Clock: time.Now, Anchors: []witness.Anchor{nil}},
	} {
		if _, err := witness.New(o); err == nil || !regexp.MustCompile(name).MatchString(err.Error()) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
