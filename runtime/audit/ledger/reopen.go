package ledger

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// sharedScan is how far back from its end a shared slot is searched for open
// intents, in bytes: a short command must start fast.
const sharedScan = 1 << 20

// Reopen goes back to the file after a failure: it must hold exactly what was
// made durable, or the log goes on refusing.
func (l *Ledger) Reopen() error {
	if l.shared {
		return l.Refresh()
	}
	l.Close()
	size, number := l.size, l.number
	err := l.use(number)
	if errors.Is(err, os.ErrNotExist) && number > 0 { // renamed away meanwhile
		l.unsynced = nil // it went with the file
		return l.create(number + 1)
	}
	if err != nil {
		return err
	}
	if size < l.size { // the failed group, or a part of it
		l.size, l.extent = size, size
		if err := l.file.Truncate(size); err != nil {
			return err
		}
	}
	if err := l.rewrite(size); err != nil {
		return err
	}
	err = l.confirm(size)
	l.size, l.extent = size, size
	return err
}

// rewrite writes what no sync has confirmed once more, up to where the records end: after
// a sync that failed the system may take pages for clean that the disk never got.
func (l *Ledger) rewrite(size int64) error {
	from := size - int64(len(l.unsynced))
	if !l.Behind() || l.size < from { // cut shorter than what was durable: confirm says so
		return nil
	}
	_, err := l.file.WriteAt(l.unsynced, from)
	return err
}

// confirm compares the end of the file with what we remember.
func (l *Ledger) confirm(size int64) error {
	if size == 0 {
		return nil
	}
	last, end, err := segment.LastLine(l.file)
	if err != nil {
		return err
	}
	if end != size || sha256.Sum256(last) != l.hash {
		return l.lost()
	}
	return nil
}

func (l *Ledger) lost() error {
	l.Close()
	return fmt.Errorf("%s does not end with record %d, which was durable: the ledger was cut or replaced", filepath.Join(l.dir, segment.Name(l.number)), l.seq)
}

// Refresh finds the end of a shared slot again if another process wrote to it.
func (l *Ledger) Refresh() error {
	if l.file != nil {
		now, err := standingAt(l.path())
		_, next := os.Stat(filepath.Join(l.dir, segment.Name(l.number+1)))
		if err == nil && now.same(l.stands) && now.size == l.size && errors.Is(next, os.ErrNotExist) {
			return nil
		}
	}
	known, latest := l.seq, l.latest
	if err := l.Load(); err != nil {
		l.Close()
		return err
	}
	if latest.After(l.latest) {
		l.latest = latest
	}
	if l.seq < known {
		l.seq = known
		return l.lost()
	}
	return nil
}

// openIntent is an intent that has no outcome.
type openIntent struct {
	seq  uint64
	line []byte
}

// unfinished searches the end of the chain for intents without an outcome, in
// order. Records before the start of the search are taken to be settled.
func (l *Ledger) unfinished() ([]openIntent, error) {
	numbers, err := segment.List(l.dir)
	if err != nil {
		return nil, err
	}
	first, offset, err := l.searchFrom(numbers)
	if err != nil {
		return nil, err
	}
	open := map[uint64]openIntent{}
	for _, number := range numbers[first:] {
		if err := scanIntents(filepath.Join(l.dir, segment.Name(number)), offset, open); err != nil {
			return nil, err
		}
		offset = 0
	}
	list := make([]openIntent, 0, len(open))
	for _, o := range open {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b openIntent) int { return cmp.Compare(a.seq, b.seq) })
	return list, nil
}

// searchFrom returns the segment (an index into numbers) and the offset in it
// where the search for open intents begins.
func (l *Ledger) searchFrom(numbers []int) (int, int64, error) {
	if len(numbers) == 0 {
		return 0, 0, nil
	}
	last := len(numbers) - 1
	if l.shared {
		if offset := l.size - sharedScan; offset > 0 {
			return last, offset, nil
		}
		return max(0, last-1), 0, nil
	}
	line, err := l.firstLine(numbers[last])
	for ; err == nil && line == nil && last > 0; last-- { // a crash came between the file and its first record
		line, err = l.firstLine(numbers[last-1])
	}
	if err != nil {
		return 0, 0, err
	}
	fields := segmentFields(line)
	if fields == nil {
		return 0, 0, nil
	}
	oldest, err := strconv.ParseUint(fields["oldest_open"], 10, 64)
	if err != nil {
		return 0, 0, nil
	}
	index, err := segment.Of(l.dir, numbers, oldest)
	return index, 0, err
}

// firstLine reads the first record of a segment; nil where there is no whole one.
func (l *Ledger) firstLine(number int) ([]byte, error) {
	f, err := os.Open(filepath.Join(l.dir, segment.Name(number)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	line, err := segment.NewLines(f, 0).Next()
	if err != nil {
		return nil, nil
	}
	return line, nil
}

// segmentFields returns what the first record of a segment says; nil when it is
// the record of something else.
func segmentFields(line []byte) map[string]string {
	var record struct {
		Event  string            `json:"event"`
		Fields map[string]string `json:"fields"`
	}
	if json.Unmarshal(line, &record) != nil || record.Event != "audit.segment" {
		return nil
	}
	if record.Fields == nil {
		return map[string]string{}
	}
	return record.Fields
}

// scanIntents adds the intents of one segment and takes off those with outcomes.
func scanIntents(path string, offset int64, open map[uint64]openIntent) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	for reader := segment.NewLines(f, offset); ; {
		line, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, segment.ErrTorn):
			return nil
		case errors.Is(err, segment.ErrLong):
			continue
		case err != nil:
			return err
		}
		link, err := segment.ParseLink(line)
		switch {
		case err != nil: // the middle of a line after an offset; Verify judges the rest
		case link.Kind == record.KindIntent:
			open[link.Sequence] = openIntent{seq: link.Sequence, line: bytes.Clone(line)}
		case link.Kind == record.KindOutcome:
			delete(open, link.Intent)
		}
	}
}

// Settle writes an outcome with result unknown for every intent that nobody
// will ever finish. In a shared slot that is one whose process is gone.
func (l *Ledger) Settle(now time.Time) error {
	open, err := l.unfinished()
	if err != nil {
		return err
	}
	var lines []*Line
	for _, o := range open {
		var intent struct {
			Process string `json:"process"`
		}
		if json.Unmarshal(o.line, &intent) != nil {
			continue
		}
		if l.shared && !holder.Gone(intent.Process) {
			continue
		}
		entry, err := record.Parse(l.slot, o.line)
		if err != nil {
			continue
		}
		lines = append(lines, &Line{Kind: record.KindOutcome, Intent: o.seq, At: now, Body: record.AppendUnknown(nil, entry, now)})
	}
	if len(lines) == 0 {
		return nil
	}
	return l.Append(lines, now, true)
}
