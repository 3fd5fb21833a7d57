package witness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// believedAfter is how long a clock has to stand where it has leapt to before records are
// old by it: until then it may be put right.
const believedAfter = 24 * time.Hour

// giveUp removes whole segments whose records are all older than Keep. A signed
// checkpoint that names the last record of what goes is durable before the first
// file is removed, so that the chain has a beginning that can be proved; a crash
// in between leaves files that the next look removes.
func (w *Witness) giveUp(ctx context.Context, now bool, bad *unsound) error {
	at := w.o.Clock()
	if w.o.Keep <= 0 || !now && at.Sub(w.prune) < pruneEvery {
		return nil
	}
	w.prune = at
	lock, err := holder.Open(w.o.Dir, "checkpoint")
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := lock.Wait(); err != nil {
		return err
	}
	last, found, err := w.book.Last()
	if err != nil || !found {
		return err
	}
	cuts := last.Checkpoint
	believed := at
	heads, changed, failed := w.cut(last.Heads, bad, at, at)
	owed := !w.told && slices.ContainsFunc(last.Heads, isCut)
	if changed || owed { // which is seldom: the book need not be read each time
		if believed, err = w.believed(at); err != nil {
			return errors.Join(failed, err)
		}
		if believed.Before(at) {
			heads, changed, failed = w.cut(last.Heads, bad, believed, at)
		}
	}
	cuts.Heads = heads
	if changed {
		key, err := w.o.Key()
		if err != nil {
			return errors.Join(failed, err)
		}
		cuts.Time = at
		if last, err = w.book.Add(cuts, key); err != nil {
			return errors.Join(failed, err)
		}
	}
	removed, err := w.removeAll(ctx, last.Heads, bad)
	if failed = errors.Join(failed, removed); err != nil {
		return errors.Join(failed, err)
	}
	if w.o.Old == nil || !changed && !owed {
		return failed
	}
	err = w.o.Old(ctx, believed.Add(-w.o.Keep))
	w.told = err == nil
	return errors.Join(failed, err)
}

func isCut(h checkpoint.Head) bool { return h.Cut != nil }

// cut returns the heads with what may go by a time that is believed, and whether it is more
// than before. A slot that cannot be read keeps its own files, and those of no other.
func (w *Witness) cut(heads []checkpoint.Head, bad *unsound, believed, at time.Time) (out []checkpoint.Head, changed bool, failed error) {
	before := believed.Add(-w.o.Keep)
	out = slices.Clone(heads)
	for i := range out {
		h := &out[i]
		if bad.has(h.Slot) {
			continue
		}
		err := w.closeOld(h.Slot, before, at)
		var cut *checkpoint.Cut
		if err == nil {
			cut, err = oldest(filepath.Join(w.o.Dir, h.Slot), h, before, at)
		}
		further := cut != nil && (h.Cut == nil || cut.Segment > h.Cut.Segment)
		if err == nil && further { // which is seldom
			further, err = stands(filepath.Join(w.o.Dir, h.Slot), h)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("slot %s: %w", h.Slot, err))
			continue
		}
		if further {
			h.Cut, changed = cut, true
		}
	}
	return out, changed, failed
}

// believed is how far the clock is taken at its word: no further than believedAfter from
// the newest checkpoint that was signed so long ago. One that has leapt ahead is believed
// when it still says so then, as it does after a time in which nothing ran.
func (w *Witness) believed(at time.Time) (time.Time, error) {
	long, found, err := w.book.Before(at.Add(-believedAfter))
	if err != nil || !found {
		return at, err
	}
	if known := long.Time.Add(believedAfter); known.Before(at) {
		return known, nil
	}
	return at, nil
}

// closeOld begins a new segment in a slot that nobody writes to and whose last
// one is old, so that it can go too.
func (w *Witness) closeOld(slot string, before, now time.Time) error {
	lock, err := holder.Open(w.o.Dir, slot)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := lock.Try(); err != nil {
		if errors.Is(err, system.ErrTaken) {
			return nil
		}
		return err
	}
	return ledger.New(ledger.Options{Dir: w.o.Dir, Slot: slot}).Leave(before, now)
}

// oldest returns where the records of a slot may begin: at its first segment
// that has one which is new enough, or that somebody may still need; nil when
// nothing may go.
//
// A segment that ends before an earlier one did, or after this moment, has the times of a
// clock that was wrong. It is as old as the next that has not, and goes with it; so does
// the one before it, which shows that it is such a one.
func oldest(dir string, h *checkpoint.Head, before, at time.Time) (*checkpoint.Cut, error) {
	numbers, err := segment.List(dir)
	if err != nil || len(numbers) < 2 {
		return nil, ignoreMissing(err)
	}
	open, err := ledger.OldestOpen(dir, numbers)
	if err != nil {
		return nil, err
	}
	acknowledged, needed := receipt.Least(filepath.Dir(dir), filepath.Base(dir))
	var cut *checkpoint.Cut
	var latest time.Time
	for i, number := range numbers[:len(numbers)-1] {
		line, err := segment.LastLineOf(filepath.Join(dir, segment.Name(number)))
		if err != nil || line == nil {
			return cut, err
		}
		entry, err := record.Parse("", line)
		if err != nil {
			return cut, nil // verify says what is wrong with it
		}
		wrong := entry.Time.After(at.Add(ledger.ClockSlack)) || entry.Time.Before(latest.Add(-ledger.ClockSlack))
		// What no checkpoint has named is not given up: nothing would show it was there.
		if !wrong && !entry.Time.Before(before) || entry.Sequence >= open || entry.Sequence > h.Sequence {
			return cut, nil
		}
		if needed && entry.Sequence > acknowledged { // a required sink has not got it yet
			return cut, nil
		}
		if wrong {
			continue
		}
		latest = entry.Time
		next, begun, err := begunAt(filepath.Join(dir, segment.Name(numbers[i+1])))
		if err != nil {
			return cut, err
		}
		if begun && next.Before(latest.Add(-ledger.ClockSlack)) {
			continue
		}
		cut = &checkpoint.Cut{Segment: numbers[i+1], Sequence: entry.Sequence, Hash: sumOf(line)}
	}
	return cut, nil
}

// begunAt is the time of a segment's first record; false when there is none yet.
func begunAt(path string) (at time.Time, begun bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return at, false, err
	}
	defer f.Close()
	line, err := segment.NewLines(f, 0).Next()
	if err != nil {
		return at, false, nil // it is still to come
	}
	entry, err := record.Parse("", line)
	return entry.Time, err == nil, nil // verify says what is wrong with it
}

// removeAll deletes the files before the cuts and tells the index. One slot that fails keeps
// no other from it; an index that fails does: err.
func (w *Witness) removeAll(ctx context.Context, heads []checkpoint.Head, bad *unsound) (failed, err error) {
	for i := range heads {
		h := &heads[i]
		if h.Cut == nil || bad.has(h.Slot) {
			continue
		}
		owed, err := w.remove(h)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := w.forget(ctx, h, owed); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// remove deletes the files of a slot before its cut, the oldest first, and reports whether
// the index may still have what was in them.
func (w *Witness) remove(h *checkpoint.Head) (owed bool, err error) {
	dir := filepath.Join(w.o.Dir, h.Slot)
	numbers, err := segment.List(dir)
	if err != nil {
		return false, ignoreMissing(err)
	}
	gone, own, err := givenUp(dir, numbers, h.Cut)
	if err != nil {
		return false, err
	}
	for _, number := range gone {
		if err := os.Remove(filepath.Join(dir, segment.Name(number))); err != nil {
			return false, err
		}
	}
	return len(gone) > 0 || own && w.forgot[h.Slot] < h.Cut.Sequence, nil // they may have been read again since
}

// forget tells the index of what was removed.
func (w *Witness) forget(ctx context.Context, h *checkpoint.Head, owed bool) error {
	if !owed || w.o.Forget == nil {
		return nil
	}
	if err := w.o.Forget(ctx, h.Slot, h.Cut.Sequence); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	w.forgot[h.Slot] = h.Cut.Sequence
	return nil
}

// givenUp returns the files of a slot that were before a cut, and whether what is there is
// what was cut: the last file before it ends with the record that it names, or is gone. Where
// the files were moved away the numbers began again, and these are of fresh records.
func givenUp(dir string, numbers []int, cut *checkpoint.Cut) (gone []int, own bool, err error) {
	kept, _ := slices.BinarySearch(numbers, cut.Segment)
	if kept == len(numbers) || kept == 0 {
		return nil, kept < len(numbers), nil
	}
	last, err := segment.LastLineOf(filepath.Join(dir, segment.Name(numbers[kept-1])))
	if err != nil || last == nil || sumOf(last) != cut.Hash {
		return nil, false, err
	}
	return numbers[:kept], true, nil
}
