//go:build unix

package witness_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// Where the files of a slot were moved away its numbers begin again: what a cut of the former
// chain gave up says nothing of the files that have those numbers now.
func TestRetentionKeepsAChainThatWasBegunAnew(t *testing.T) {
	for name, back := range map[string]bool{"moved away": false, "and back later": true} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		clock := runtimetest.NewClock()
		o := audittest.Options(dir)
		o.Clock, o.SegmentSize = clock.Now, 1
		files := func(in string) []string {
			found, err := filepath.Glob(filepath.Join(in, "*.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		move := func(from, to string) {
			for _, file := range files(from) {
				if err := os.Rename(file, filepath.Join(to, filepath.Base(file))); err != nil {
					t.Fatal(err)
				}
			}
		}
		l := audittest.Open(t, o)
		events := func(n int) {
			for i := range n {
				if err := l.Event(t.Context(), record.Event{Kind: fmt.Sprint("e", i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		forgot := uint64(0)
		witnessed := func() *witness.Witness {
			forgot = 0
			return newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour, Forget: func(_ context.Context, _ string, upTo uint64) error {
				forgot = upTo
				return nil
			}})
		}
		events(8)
		clock.Advance(2 * time.Hour)
		events(1)
		if sign(t, witnessed()); forgot == 0 {
			t.Fatal("nothing was given up")
		}
		audittest.Shut(t, l)
		slot := filepath.Join(dir, "proxy")
		move(slot, elsewhere)
		l = audittest.Open(t, o)
		for range 5 { // a few at a time: behind the signed head, and past it
			events(3)
			if back {
				audittest.Shut(t, l)
				move(elsewhere, slot)
				l = audittest.Open(t, o)
				events(1)
			}
			before := files(slot)
			_, _ = witnessed().Sign(t.Context(), true) // it may say that the end is missing
			if now := files(slot); !slices.Equal(now, before) || forgot > 0 {
				t.Fatalf("%s: %q, of %q, forgotten up to %d", name, now, before, forgot)
			}
			if back {
				break
			}
		}
	}
}

// Of a chain that was begun anew, and that its process still writes to, another process knows
// no more than what was signed of the former: its records are none that a checkpoint names.
func TestRetentionKeepsAChainThatWasBegunAnewByAnother(t *testing.T) {
	for _, behind := range []bool{true, false} { // the numbers of the former chain
		dir := t.TempDir()
		clock := runtimetest.NewClock()
		o := audittest.Options(dir)
		o.Clock, o.SegmentSize = clock.Now, 1
		l := audittest.Open(t, o)
		events := func(n int) {
			t.Helper()
			for i := range n {
				if err := l.Event(t.Context(), record.Event{Kind: fmt.Sprint("e", i)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		files := func() []string {
			found, err := filepath.Glob(filepath.Join(dir, "proxy", "*.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
		events(8)
		sign(t, newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now}))
		audittest.Shut(t, l)
		for _, file := range files() {
			if err := os.Rename(file, filepath.Join(t.TempDir(), filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		l = audittest.Open(t, o)
		if events(4); !behind {
			events(12)
		}
		clock.Advance(2 * time.Hour)
		events(1)
		before := files()
		other := newWitness(t, witness.Options{Dir: dir, Clock: clock.Now, Keep: time.Hour})
		_, _ = other.Sign(t.Context(), true)
		if now := files(); !slices.Equal(now, before) {
			t.Errorf("behind the former numbers %v: %q are left of %q", behind, now, before)
		}
	}
}
