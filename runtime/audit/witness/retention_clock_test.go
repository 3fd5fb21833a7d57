//go:build unix

package witness_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// wronged is a trail that is kept for thirty days, a segment a day, by a clock that a test
// sets wrong.
type wronged struct {
	*testing.T
	dir   string
	clock *runtimetest.Clock
	log   *audit.Log
	w     *witness.Witness
	n     int
}

func newWronged(t *testing.T) *wronged {
	w := &wronged{T: t, dir: t.TempDir(), clock: runtimetest.NewClock()}
	o := audittest.Options(w.dir)
	o.Clock, o.SegmentAge = w.clock.Now, day
	w.log = audittest.Open(t, o)
	t.Cleanup(func() { audittest.Shut(t, w.log) })
	w.w = newWitness(t, witness.Options{Dir: w.dir, Own: w.log, Clock: w.clock.Now, Keep: 30 * day})
	return w
}

// after records something so much later, signs, and removes what may go.
func (w *wronged) after(d time.Duration) {
	w.Helper()
	w.clock.Advance(d)
	w.n++
	if err := w.log.Event(w.Context(), record.Event{Kind: fmt.Sprint("e", w.n)}); err != nil {
		w.Fatal(err)
	}
	sign(w, w.w)
	if report, err := proof.Verify(w.Context(), w.dir, proof.Trust{Key: public(w)}); err != nil || !report.OK {
		w.Fatalf("%v\n%s", err, report)
	}
}

// days lets so many days pass on which something is recorded.
func (w *wronged) days(n int) {
	w.Helper()
	for range n {
		w.after(day)
	}
}

// first is the oldest segment that is left.
func (w *wronged) first() string {
	w.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "proxy", "*.jsonl"))
	if err != nil || len(files) == 0 {
		w.Fatal(files, err)
	}
	return filepath.Base(files[0])
}

// A clock that leaps far ahead makes nothing old that is not, for a day in which it may be
// put right; one that stays there is believed, as after a time in which nothing ran.
func TestAClockThatLeapsAheadRemovesNothing(t *testing.T) {
	w := newWronged(t)
	w.days(10)
	for range 3 {
		w.after(50 * year)
		w.after(time.Hour)
		w.after(20 * time.Hour)
		w.after(-50*year - 21*time.Hour)
	}
	if first := w.first(); first != "00000001.jsonl" {
		t.Errorf("records of ten days are gone: the first left are in %s", first)
	}
	w.after(100 * day)
	if first := w.first(); first != "00000001.jsonl" {
		t.Errorf("right after a long rest the first left are in %s", first)
	}
	w.after(day)
	w.after(time.Hour)
	if first := w.first(); first < "00000010.jsonl" {
		t.Errorf("a day after a long rest the first left are in %s still", first)
	}
}

// Records of a clock that had gone back, or far ahead, are as old as what follows them:
// they go no sooner, and keep nothing that came when it was right again.
func TestRecordsOfAWrongClockAreAsOldAsWhatFollows(t *testing.T) {
	for name, c := range map[string]struct {
		leap  time.Duration
		first string // when the first record is older than thirty days, and five may be
	}{
		"back":  {-40 * year, "00000001.jsonl"}, // which shows that what follows it is younger than it says
		"ahead": {40 * year, "00000002.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWronged(t)
			w.after(0)
			w.clock.Advance(c.leap)
			for range 5 {
				w.clock.Advance(day)
				if err := w.log.Event(t.Context(), record.Event{Kind: "wrong"}); err != nil {
					t.Fatal(err)
				}
			}
			w.clock.Advance(-c.leap)
			w.days(27)
			if first := w.first(); first != c.first {
				t.Errorf("after 32 days the first left are in %s, not %s", first, c.first)
			}
			w.days(10)
			if first := w.first(); first < "00000008.jsonl" {
				t.Errorf("ten days later the first left are in %s still", first)
			}
		})
	}
}
