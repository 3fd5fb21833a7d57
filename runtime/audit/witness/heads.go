package witness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// heads finds out how far each slot goes, for a checkpoint. A head is taken only
// where it cannot be taken back: of our own slot what is durable, of one that
// nobody writes to what is on the disk, of one that another process holds what
// that process has acknowledged.
type heads struct {
	dir  string
	own  Log // may be nil
	seen map[string]seenHead
}

// seenHead is a head and the file it was read from, so that slots that rest are
// not read again.
type seenHead struct {
	head     checkpoint.Head
	segment  int
	size     int64
	modified time.Time
}

func (s *seenHead) same(number int, info os.FileInfo) bool {
	return s.segment == number && s.size == info.Size() && s.modified.Equal(info.ModTime())
}

// unsound are the slots of which a checkpoint says again what the one before said, since
// something is wrong with what they hold.
type unsound struct {
	slots []string
	cut   []string // those that hold less than was signed, which no writer does
	err   error    // why it cannot be told how far the others go
}

func (u *unsound) has(slot string) bool { return slices.Contains(u.slots, slot) }

// problem is what is wrong with them, beside a checkpoint that was signed; nil: nothing.
func (u *unsound) problem(number uint64) (err error) {
	if len(u.cut) > 0 {
		err = fmt.Errorf("the ledger of %s does not hold what checkpoint %d says: kimbap audit verify", strings.Join(u.cut, ", "), number)
	}
	return errors.Join(err, u.err)
}

// all returns the heads of all slots that have a record, by name. Of those that
// do not show what they hold, and of the unsound, last is repeated: one that is damaged
// keeps no other from being signed.
func (h *heads) all(last *checkpoint.Checkpoint) (out []checkpoint.Head, bad unsound, err error) {
	names, err := segment.Slots(h.dir)
	if err != nil {
		return nil, bad, err
	}
	for _, name := range names {
		before, known := last.Head(name)
		now, sure, err := h.one(name)
		if err != nil {
			bad.slots, bad.err = append(bad.slots, name), errors.Join(bad.err, fmt.Errorf("slot %s: %w", name, err))
			now, sure = checkpoint.Head{}, false
		}
		now.Cut = before.Cut
		switch {
		case now.Sequence > before.Sequence:
			out = append(out, now)
		case known:
			out = append(out, before)
			if sure && (now.Sequence < before.Sequence || now.Hash != before.Hash) {
				bad.slots, bad.cut = append(bad.slots, name), append(bad.cut, name)
			}
		}
	}
	for _, before := range last.Heads { // a slot whose folder is gone, or no folder any more, stays named
		if !slices.Contains(names, before.Slot) {
			out, bad.slots, bad.cut = append(out, before), append(bad.slots, before.Slot), append(bad.cut, before.Slot)
		}
	}
	slices.SortFunc(out, func(a, b checkpoint.Head) int { return strings.Compare(a.Slot, b.Slot) })
	return out, bad, nil
}

// one returns the head of a slot, with sequence 0 when it cannot be told now;
// sure when there is nothing behind it.
func (h *heads) one(slot string) (head checkpoint.Head, sure bool, err error) {
	if h.own != nil && h.own.Slot() == slot {
		if seq, hash, alone := h.own.Tip(); alone {
			return newHead(slot, seq, hash), true, nil
		}
	}
	dir := filepath.Join(h.dir, slot)
	numbers, err := segment.List(dir)
	if err != nil || len(numbers) == 0 {
		return head, true, ignoreMissing(err)
	}
	number := numbers[len(numbers)-1]
	path := filepath.Join(dir, segment.Name(number))
	info, err := os.Stat(path)
	if err != nil {
		return head, true, ignoreMissing(err)
	}
	if seen, ok := h.seen[slot]; ok && seen.same(number, info) {
		return seen.head, true, nil
	}
	lock, err := holder.Open(h.dir, slot)
	if err != nil {
		return head, false, err
	}
	defer func() { _ = lock.Close() }()
	switch err = lock.Try(); {
	case errors.Is(err, system.ErrTaken):
		head, err = acknowledged(slot, path)
		return head, false, err
	case err != nil:
		return head, false, err
	}
	head, err = h.resting(slot)
	return head, true, err
}

// resting reads the head of a slot whose lock we hold: what a new writer of it
// would follow, made durable.
func (h *heads) resting(slot string) (checkpoint.Head, error) {
	l := ledger.New(ledger.Options{Dir: h.dir, Slot: slot})
	if err := l.Load(); err != nil {
		return checkpoint.Head{}, err
	}
	defer l.Close()
	if err := l.File().Sync(); err != nil {
		return checkpoint.Head{}, err
	}
	seq, hash := l.Tip()
	head := newHead(slot, seq, hash)
	if info, err := l.File().Stat(); err == nil {
		h.seen[slot] = seenHead{head: head, segment: l.Number(), size: info.Size(), modified: info.ModTime()}
	}
	return head, nil
}

// acknowledged returns the last record of a living process's segment that it
// has acknowledged to somebody. An outcome stands in a later group than its
// intent, and a group is begun when the one before is durable or will be written again
// until it is: what is behind the newest such intent may still be taken back. What only
// stands in the file so far is made durable here.
func acknowledged(slot, path string) (checkpoint.Head, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0) // Windows syncs what may be written
	if err != nil {
		return checkpoint.Head{}, ignoreMissing(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return checkpoint.Head{}, err
	}
	end, err := segment.RecordsEnd(f, info.Size())
	if err != nil {
		return checkpoint.Head{}, err
	}
	const window = 256 << 10
	from := max(0, end-window)
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return checkpoint.Head{}, err
	}
	sums, newest := map[uint64]segment.Digest{}, uint64(0)
	for lines := segment.NewLines(f, from); ; {
		line, err := lines.Next()
		if errors.Is(err, segment.ErrLong) {
			continue
		}
		if err != nil {
			break
		}
		link, err := segment.ParseLink(line)
		if err != nil {
			continue // the window begins inside a line
		}
		sums[link.Sequence] = sha256.Sum256(line)
		if link.Kind == record.KindOutcome {
			newest = max(newest, link.Intent)
		}
	}
	sum, ok := sums[newest]
	if !ok {
		return checkpoint.Head{Slot: slot}, nil
	}
	return newHead(slot, newest, sum), f.Sync() // what was read: more may have come since
}

// stands reports whether the record that a checkpoint names is in the folder of its slot. Where
// the files were moved away and the numbers began again it says nothing of the records that
// have these numbers now, which their writer may not have acknowledged yet.
func stands(dir string, h *checkpoint.Head) (bool, error) {
	numbers, err := segment.List(dir)
	if err != nil {
		return false, ignoreMissing(err)
	}
	for _, number := range slices.Backward(numbers) {
		last, sum, err := back(filepath.Join(dir, segment.Name(number)), h.Sequence)
		if err != nil || last == h.Sequence || last > 0 && last < h.Sequence {
			return last == h.Sequence && sum == h.Hash, ignoreMissing(err)
		}
	}
	return false, nil
}

// back reads a segment from its end to a record that is not after another: its number and
// hash, or 0 where it has none.
func back(path string, seq uint64) (found uint64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, "", err
	}
	for lines := segment.NewBackward(f, info.Size()); ; {
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return 0, "", nil
		case errors.Is(err, segment.ErrLong):
			continue
		case err != nil:
			return 0, "", err
		}
		if link, err := segment.ParseLink(line); err == nil && link.Sequence <= seq { // verify says what is wrong with others
			return link.Sequence, sumOf(line), nil
		}
	}
}

func newHead(slot string, seq uint64, hash segment.Digest) checkpoint.Head {
	return checkpoint.Head{Slot: slot, Sequence: seq, Hash: hex.EncodeToString(hash[:])}
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func sumOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}
