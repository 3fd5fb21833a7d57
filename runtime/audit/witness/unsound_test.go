//go:build unix

package witness_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/witness"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// An idle slot that is damaged keeps none of the others from being signed, sent out and given
// up: else whoever damages it could stop what is kept outside, and then change what comes.
func TestOneUnsoundSlotStopsNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(slot string) error
		said   string
	}{
		"gone": {os.RemoveAll, "the ledger of run does not hold what checkpoint"},
		"a link to elsewhere": {func(slot string) error {
			return errors.Join(os.Rename(slot, slot+".moved"), os.Symlink(slot+".moved", slot))
		}, "the ledger of run does not hold what checkpoint"},
		"a file": {func(slot string) error {
			return errors.Join(os.RemoveAll(slot), os.WriteFile(slot, nil, 0o600))
		}, "the ledger of run does not hold what checkpoint"},
		"without its end": {func(slot string) error {
			return os.Truncate(filepath.Join(slot, "00000001.jsonl"), 0)
		}, "the ledger of run does not hold what checkpoint"},
		"with a line that is none": {func(slot string) error {
			f, err := os.OpenFile(filepath.Join(slot, "00000001.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(f, "x")
			return errors.Join(err, f.Close())
		}, "slot run: "},
	} {
		dir, clock := t.TempDir(), runtimetest.NewClock()
		o := audittest.Options(dir)
		o.Clock, o.SegmentSize = clock.Now, 1
		idle := o
		idle.Slot, idle.SegmentSize = "run", 0
		other := audittest.Open(t, idle)
		audittest.Intents(t, other, 0, 3)
		audittest.Shut(t, other)
		l := audittest.Open(t, o)
		events := func() {
			for range 3 {
				if err := l.Event(t.Context(), record.Event{Kind: "policy.changed"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		events()
		p := &place{}
		w := newWitness(t, witness.Options{Dir: dir, Own: l, Clock: clock.Now, Keep: time.Hour, Anchors: []witness.Anchor{p}})
		first := sign(t, w)
		named, _ := first.Head("run")
		if err := c.damage(filepath.Join(dir, "run")); err != nil {
			t.Fatal(err)
		}
		clock.Advance(2 * time.Hour)
		events()
		had := p.count()
		seq, _, _ := l.Tip()
		signed, err := w.Sign(t.Context(), true)
		if err == nil || !strings.HasPrefix(err.Error(), "checkpoint of the audit trail: "+c.said) || errors.Is(err, witness.ErrUnsent) || !errors.Is(err, witness.ErrUnsound) {
			t.Errorf("%s: said: %v", name, err)
		}
		if head, _ := signed.Head("proxy"); head.Sequence != seq || p.count() != had+1 {
			t.Errorf("%s: checkpoint %d names record %d of %d, and %d were sent", name, signed.Number, head.Sequence, seq, p.count()-had)
		}
		if head, _ := signed.Head("run"); head != named {
			t.Errorf("%s: %+v is named, not %+v", name, head, named)
		}
		if _, err := os.Stat(segmentIn(dir, "proxy")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: old records of the other slot stay: %v", name, err)
		}
		p.fail = errors.New("no room")
		events()
		if _, err := w.Sign(t.Context(), true); !errors.Is(err, p.fail) || !errors.Is(err, witness.ErrUnsent) || !strings.Contains(err.Error(), c.said) {
			t.Errorf("%s: with a place that fails: %v", name, err)
		}
	}
}
