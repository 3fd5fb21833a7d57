package ledger

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// How a ledger goes on in a new segment.

// next goes on in a new segment, when all of this one is durable.
func (l *Ledger) next() error {
	if l.Behind() {
		if err := syncData(l.file); err != nil {
			return err
		}
		l.unsynced = l.unsynced[:0]
	}
	return l.create(l.number + 1)
}

// old reports whether the segment has gone on for long enough, so that whole
// segments can be given up one day, or its clock has leapt by as much: the records of one
// that was wrong stand in segments of their own.
func (l *Ledger) old(now time.Time) bool {
	if l.age <= 0 || l.size == 0 {
		return false
	}
	if l.began.IsZero() {
		l.began = now
		line, err := segment.NewLines(io.NewSectionReader(l.file, 0, l.size), 0).Next()
		if err == nil {
			if entry, err := record.Parse(l.slot, line); err == nil {
				l.began = entry.Time
			}
		}
	}
	return now.Sub(l.began).Abs() >= l.age
}

// beginning is the first record of a segment after the first. It says from
// where on intents may be open, so that [Ledger.Settle] need not read more.
func (l *Ledger) beginning(now time.Time) *Line {
	oldest := l.seq + 1
	for seq := range l.open {
		oldest = min(oldest, seq)
	}
	ev := record.Event{Kind: "audit.segment"}
	if !l.shared { // of others' open intents we do not know
		ev.Fields = map[string]string{"oldest_open": strconv.FormatUint(oldest, 10)}
	}
	return &Line{Kind: record.KindEvent, At: now, Body: record.AppendEvent(nil, ev, now)}
}

// Leave begins a new segment in a slot that nobody writes to, if its last record is from
// before then. The ledger is closed after it.
func (l *Ledger) Leave(before, now time.Time) error {
	if err := l.Load(); err != nil {
		return err
	}
	defer l.Close()
	if l.seq == 0 || !l.latest.Before(before) {
		return nil
	}
	if l.size > 0 { // else one that was cut off has begun the next
		if err := l.create(l.number + 1); err != nil {
			return err
		}
	}
	l.shared = true // of open intents we say nothing
	return l.Append(nil, now, true)
}

// OldestOpen is the first record that the newest segment of a slot says is still needed,
// by its folder and the numbers of its segments.
func OldestOpen(dir string, numbers []int) (uint64, error) {
	f, err := os.Open(filepath.Join(dir, segment.Name(numbers[len(numbers)-1])))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	line, err := segment.NewLines(f, 0).Next()
	if err != nil {
		return 0, nil // its first record is still to come
	}
	oldest, err := strconv.ParseUint(segmentFields(line)["oldest_open"], 10, 64)
	if err != nil { // of a shared slot: short commands
		return 1<<64 - 1, nil
	}
	return oldest, nil
}
