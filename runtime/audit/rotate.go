package audit

import (
	"io"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// How a ledger goes on in a new segment.

// next goes on in a new segment, when all of this one is durable.
func (l *ledger) next() error {
	if l.behind() {
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
func (l *ledger) old(now time.Time) bool {
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
// where on intents may be open, so that [Log.Open] need not read more.
func (l *ledger) beginning(now time.Time) *line {
	oldest := l.seq + 1
	for seq := range l.open {
		oldest = min(oldest, seq)
	}
	ev := record.Event{Kind: "audit.segment"}
	if !l.shared { // of others' open intents we do not know
		ev.Fields = map[string]string{"oldest_open": strconv.FormatUint(oldest, 10)}
	}
	return &line{kind: record.KindEvent, at: now, body: record.AppendEvent(nil, ev, now)}
}
