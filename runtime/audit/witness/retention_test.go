//go:build unix

package witness_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Old segments go whole; the checkpoint that names where the chain begins then is
// there before, and it cannot be used to hide more.
func TestRetentionKeepsTheChain(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize = clock.Now, 1 // every group begins a segment
	l := audittest.Open(t, o)
	gone := map[string]uint64{}
	var old []time.Time
	w := newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour, Forget: func(_ context.Context, slot string, upTo uint64) error {
		gone[slot] = upTo
		return nil
	}, Old: func(_ context.Context, before time.Time) error {
		old = append(old, before)
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
	if len(old) != 1 || !old[0].Equal(clock.Now().Add(-time.Hour)) {
		t.Errorf("at %s what is older than %v is told to be old", clock.Now(), old)
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

// A file from before what was given up may stand there still, but it is no place behind which
// records can be missing: the first one that is left follows the last that was given up.
func TestAFileFromBeforeTheCutHidesNothing(t *testing.T) {
	for name, tamper := range map[string]func(left []string, before string) error{
		"emptied": func(left []string, before string) error {
			err := os.WriteFile(before, nil, 0o600)
			for _, file := range left[:len(left)-1] {
				err = errors.Join(err, os.Truncate(file, 0))
			}
			return err
		},
		"moved up": func(left []string, before string) error {
			err := os.Remove(left[0])
			for i, to := range append([]string{before}, left[:len(left)-2]...) {
				err = errors.Join(err, os.Rename(left[i+1], to))
			}
			return err
		},
	} {
		dir, clock := t.TempDir(), runtimetest.NewClock()
		o := audittest.Options(dir)
		o.Clock, o.SegmentSize = clock.Now, 1
		l := audittest.Open(t, o)
		w := newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour})
		events := func() {
			for i := range 4 {
				if err := l.Event(t.Context(), record.Event{Kind: fmt.Sprint("e", i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		events()
		clock.Advance(2 * time.Hour)
		sign(t, w)
		events()
		sign(t, w)
		audittest.Shut(t, l)
		left, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
		if err != nil || len(left) < 4 {
			t.Fatal(left, err)
		}
		number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(left[0]), ".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		before := filepath.Join(dir, "proxy", segment.Name(number-1))
		trust := proof.Trust{Key: public(t)}
		if report, err := proof.Verify(t.Context(), dir, trust); err != nil || !report.OK || report.Slots[0].GivenUp == 0 {
			t.Fatalf("%s: before: %v\n%s", name, err, report)
		}
		if err := tamper(left, before); err != nil {
			t.Fatal(err)
		}
		report, err := proof.Verify(t.Context(), dir, trust)
		if first, bad := report.First(); err != nil || !bad || first.Kind != proof.ProblemRemoved {
			t.Errorf("%s: %v, %+v\n%s", name, err, first, report)
		}
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
	w := newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour})
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

// What follows the removal of old records, in the index and among the approvals, is made up
// for where the process that removed them died before it, or the store did not answer then:
// once by every other process, and by the same one as often as it fails.
func TestWhatFollowsARemovalIsMadeUpFor(t *testing.T) {
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
	var forgot, old int
	var failing error
	process := func() *witness.Witness {
		return newWitness(t, witness.Options{
			Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour,
			Forget: func(context.Context, string, uint64) error { forgot++; return failing },
			Old: func(_ context.Context, before time.Time) error {
				if !before.Equal(clock.Now().Add(-time.Hour)) {
					t.Errorf("what is older than %v is told to be old", before)
				}
				old++
				return failing
			},
		})
	}
	w := process()
	sign(t, w)
	if forgot+old > 0 {
		t.Error("nothing was old")
	}
	clock.Advance(2 * time.Hour)
	failing = errors.New("the store does not answer")
	if _, err := w.Sign(t.Context(), true); !errors.Is(err, failing) || forgot != 1 || old != 0 {
		t.Fatalf("%v, forgot %d, old %d", err, forgot, old)
	}
	failing = nil
	for name, by := range map[string]*witness.Witness{"itself": w, "another": process()} {
		forgot, old = 0, 0
		for range 2 {
			sign(t, by)
		}
		if forgot != 1 || old != 1 {
			t.Errorf("%s: forgot %d times, told of old ones %d times", name, forgot, old)
		}
	}
}

// A segment that was begun, so that the one before it can go, and got no record since its
// process died there, keeps nothing from going.
func TestRetentionGoesOnBehindASegmentThatIsEmpty(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.Clock = clock.Now
	l := audittest.Open(t, o)
	if err := l.Event(t.Context(), record.Event{Kind: "old"}); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	w := newWitness(t, witness.Options{Dir: dir, Clock: clock.Now, Keep: time.Hour})
	sign(t, w)
	begun := filepath.Join(dir, "proxy", "00000002.jsonl")
	if err := os.WriteFile(begun, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	sign(t, w)
	left, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
	if err != nil || len(left) != 1 || left[0] != begun {
		t.Errorf("%q are left, %v", left, err)
	}
	if report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)}); err != nil || !report.OK {
		t.Errorf("%v\n%s", err, report)
	}
}

// What a required sink lacks is not removed, however old it is, nor is anything where it is
// not known what one lacks.
func TestRetentionKeepsWhatASinkLacks(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	gone := &shaky{}
	o := audittest.Options(dir)
	o.Clock, o.SegmentSize, o.Sinks = clock.Now, 1, []outlet.Sink{gone}
	l := audittest.Open(t, o)
	w := newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour})
	events := func() {
		for range 3 {
			_ = l.Event(t.Context(), record.Event{Kind: "policy.changed"})
		}
	}
	first := func() uint64 {
		sign(t, w)
		report, err := proof.Verify(t.Context(), dir, proof.Trust{Key: public(t)})
		if err != nil || !report.OK {
			t.Fatalf("%v\n%s", err, report)
		}
		return report.Slots[0].First
	}
	events()
	mark, err := os.ReadFile(filepath.Join(dir, "proxy.sinks"))
	if err != nil {
		t.Fatal(err)
	}
	had, _, _ := l.Tip()
	events()
	gone.gone.Store(true)
	events() // the first of them is written, and the sink lacks it
	clock.Advance(2 * time.Hour)
	if err := os.WriteFile(filepath.Join(dir, "proxy.sinks"), mark[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if got := first(); got != 1 {
		t.Errorf("with a mark that is damaged records before %d are gone", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "proxy.sinks"), mark, 0o600); err != nil {
		t.Fatal(err)
	}
	clock.Advance(2 * time.Hour)
	if got := first(); got <= 1 || got > had+1 {
		t.Errorf("the sink has up to record %d, and those before %d are gone", had, got)
	}
}

// shaky is a required sink that may be gone.
type shaky struct{ gone atomic.Bool }

func (p *shaky) Name() string   { return "shaky" }
func (p *shaky) Required() bool { return true }
func (p *shaky) Close() error   { return nil }

func (p *shaky) Write(context.Context, string, [][]byte) error {
	if p.gone.Load() {
		return errors.New("gone")
	}
	return nil
}
