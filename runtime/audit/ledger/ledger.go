package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// ClockSlack is how far a record's time may lie before the latest one without
// being marked: requests that run side by side swap by microseconds.
const ClockSlack = time.Second

// Line is one encoded record on its way to the ledger, without number and hash.
type Line struct {
	Body   []byte
	At     time.Time
	Kind   record.Kind
	Noted  bool   // an event that nobody waits for
	Intent uint64 // outcome: the number of its intent
	Seq    uint64 // set by the ledger
}

// Options are what a [Ledger] is made of. Dir and Slot are required.
type Options struct {
	Dir    string        // the audit folder
	Slot   string        // whose lock is held by who uses the ledger
	Limit  int64         // of a segment, in bytes; 64 MiB when 0
	Age    time.Duration // after which a segment is followed by a new one; 0: never
	Shared bool          // several processes write to the slot in turn
}

// limit is that of a segment when nobody says otherwise.
const limit = 64 << 20

// Ledger writes the chain of one slot. One goroutine uses it, and only while it
// holds the slot's lock.
type Ledger struct {
	dir    string // of the slot
	slot   string
	limit  int64         // of a segment, in bytes
	age    time.Duration // of a segment; 0: any
	shared bool

	file   *os.File
	stands standing  // which file that is
	number int       // of the segment
	began  time.Time // of its first record; zero: not known yet
	size   int64     // where its records end; what lies behind them is not ours
	extent int64     // of the file: records and the room behind them
	room   room
	seq    uint64
	hash   segment.Digest
	latest time.Time
	open   map[uint64]struct{} // intents of this process without an outcome

	unsynced []byte // the end of the records that no sync has confirmed yet

	out  []byte // the group being written
	ends []int  // where each of its lines ends in out
}

// New does no IO: [Ledger.Load] does.
func New(o Options) *Ledger {
	if o.Limit <= 0 {
		o.Limit = limit
	}
	return &Ledger{
		dir: filepath.Join(o.Dir, o.Slot), slot: o.Slot, limit: o.Limit, age: o.Age,
		shared: o.Shared, open: map[uint64]struct{}{},
	}
}

// Tip is the last record: its number and its hash.
func (l *Ledger) Tip() (seq uint64, hash segment.Digest) { return l.seq, l.hash }

// Number is that of the segment that is written to.
func (l *Ledger) Number() int { return l.number }

// File is that of the segment; nil while none is open, as after an error.
func (l *Ledger) File() *os.File { return l.file }

func (l *Ledger) path() string { return filepath.Join(l.dir, segment.Name(l.number)) }

// Load finds the end of the chain on disk, cuts a torn last line and opens the
// last segment for appending.
func (l *Ledger) Load() error {
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	numbers, err := segment.List(l.dir)
	if err != nil {
		return err
	}
	l.seq, l.hash, l.latest = 0, segment.Genesis(l.slot), time.Time{}
	if len(numbers) == 0 {
		return l.create(1)
	}
	if err := l.use(numbers[len(numbers)-1]); err != nil {
		return err
	}
	last, end, err := l.lastSound()
	if err != nil {
		return err
	}
	if l.size > end { // only the holder of the lock may do this
		if err := l.file.Truncate(end); err != nil {
			return err
		}
		l.size, l.extent = end, end
	}
	for i := len(numbers) - 2; last == nil && i >= 0; i-- { // a crash right after a rotation
		if last, err = segment.LastLineOf(filepath.Join(l.dir, segment.Name(numbers[i]))); err != nil {
			return err
		}
	}
	if last == nil {
		return nil
	}
	return l.setTip(last)
}

// setTip makes last the record that the next one follows.
func (l *Ledger) setTip(last []byte) error {
	link, err := segment.ParseLink(last)
	if err != nil {
		return fmt.Errorf("%s: the last line is %w: look at it with `kimbap audit verify`", l.path(), err)
	}
	l.seq, l.hash = link.Sequence, sha256.Sum256(last)
	if entry, err := record.Parse(l.slot, last); err == nil && entry.Time.After(l.latest) {
		l.latest = entry.Time
	}
	return nil
}

// use opens an existing segment for appending.
func (l *Ledger) use(number int) error {
	f, err := os.OpenFile(filepath.Join(l.dir, segment.Name(number)), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return l.adopt(f, number)
}

// create starts a new segment.
func (l *Ledger) create(number int) error {
	f, err := os.OpenFile(filepath.Join(l.dir, segment.Name(number)), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := system.SyncFolder(l.dir); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return l.adopt(f, number)
}

func (l *Ledger) adopt(f *os.File, number int) error {
	stands, err := standingOf(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.Close()
	l.file, l.stands, l.number, l.began = f, stands, number, time.Time{}
	l.size, l.extent = stands.size, stands.size
	return nil
}

// Close closes the segment, without the room behind its records. What [Ledger.Behind]
// says is not durable then.
func (l *Ledger) Close() {
	if l.file != nil {
		l.giveUpRoom()
		_ = l.file.Close() // every byte that counts was synced before
		l.file = nil
	}
}

// Open is how many intents of this process have no outcome.
func (l *Ledger) Open() int { return len(l.open) }

// Behind reports whether there is something that only a later sync makes durable.
func (l *Ledger) Behind() bool { return len(l.unsynced) > 0 }

// Unsynced is how much that is, in bytes.
func (l *Ledger) Unsynced() int { return len(l.unsynced) }

// Append writes the lines as one group. With last it returns when they, and all that was
// written before, are durable. After an error nothing of the group counts, and the ledger
// must be reopened.
func (l *Ledger) Append(lines []*Line, now time.Time, last bool) error {
	moved, err := l.check()
	if err != nil {
		l.Close()
		return err
	}
	seq, hash, latest := l.seq, l.hash, l.latest
	l.out, l.ends = l.out[:0], l.ends[:0]
	if moved || l.size >= l.limit || l.old(now) {
		err = l.next()
	}
	if err == nil {
		if l.size == 0 && l.number > 1 {
			l.chain(l.beginning(now))
		}
		for _, ln := range lines {
			if ln != nil {
				l.chain(ln)
			}
		}
		l.roomFor(int64(len(l.out)))
		if _, err = l.file.WriteAt(l.out, l.size); err == nil && last {
			err = syncData(l.file)
		}
	}
	if err != nil {
		l.seq, l.hash, l.latest = seq, hash, latest
		if l.file != nil {
			l.giveUpRoom()
			_ = l.file.Truncate(l.size) // best effort: reopen checks what is there
		}
		l.Close()
		return err
	}
	l.size += int64(len(l.out))
	l.extent = max(l.extent, l.size)
	if l.unsynced = append(l.unsynced, l.out...); last {
		l.unsynced = l.unsynced[:0]
	}
	l.reserve()
	for _, ln := range lines {
		l.track(ln)
	}
	return nil
}

// check finds out whether the file is still where and what we left. One stat
// per group: a segment that was moved is followed by a new one, a file that
// somebody else wrote to or cut is not written to.
func (l *Ledger) check() (moved bool, err error) {
	if l.file == nil {
		return false, os.ErrClosed
	}
	now, err := standingAt(l.path())
	if errors.Is(err, os.ErrNotExist) || err == nil && !now.same(l.stands) {
		return true, nil
	}
	if err == nil && now.size != l.extent && (l.room.filling == nil || now.size < l.extent || now.size > l.room.filled) {
		err = fmt.Errorf("%s has %d bytes, not the %d that were written: somebody else changed it", l.path(), now.size, l.extent)
	}
	return false, err
}

// chain gives a line its number and the hash of the one before.
func (l *Ledger) chain(ln *Line) {
	l.seq++
	ln.Seq = l.seq
	start, out := len(l.out), l.out
	out = segment.AppendLink(out, l.seq, l.hash)
	out = append(out, ln.Body...)
	if ln.At.Before(l.latest.Add(-ClockSlack)) {
		out = append(out, `,"clock":"back"`...)
	} else if ln.At.After(l.latest) {
		l.latest = ln.At
	}
	out = append(out, '}')
	l.hash = sha256.Sum256(out[start:])
	l.out = append(out, '\n')
	l.ends = append(l.ends, len(l.out))
}

// track keeps the set of open intents.
func (l *Ledger) track(ln *Line) {
	switch {
	case ln == nil:
	case ln.Kind == record.KindIntent:
		l.open[ln.Seq] = struct{}{}
	case ln.Kind == record.KindOutcome:
		delete(l.open, ln.Intent)
	}
}

// Written returns the lines of the last group, each with its newline. They are
// valid until the next append.
func (l *Ledger) Written() [][]byte {
	lines, start := make([][]byte, len(l.ends)), 0
	for i, end := range l.ends {
		lines[i], start = l.out[start:end:end], end
	}
	return lines
}
