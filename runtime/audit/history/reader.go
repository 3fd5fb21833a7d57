package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// tailInterval is how often a following reader looks for more.
const tailInterval = 250 * time.Millisecond

// looks is how often a reader looks for a segment that goes away.
const looks = 8

// slotReader reads the records of one slot across its segments, also while
// they are written. At the end of what is there, next returns io.EOF and can be
// called again later.
type slotReader struct {
	dir    string // of the slot
	slot   string
	after  uint64    // records up to this one are skipped
	since  time.Time // those before are skipped too; zero: none
	number int       // of the open segment; 0: none yet
	file   *os.File
	lines  *segment.Lines
}

func (s *slotReader) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// next returns the next record. Lines that are no records are left to Verify.
func (s *slotReader) next() (record.Entry, error) {
	for {
		if s.file == nil {
			if err := s.advance(); err != nil {
				return record.Entry{}, err
			}
		}
		line, err := s.lines.Next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, segment.ErrTorn):
			if err := s.turn(); err != nil {
				return record.Entry{}, err
			}
			continue
		case errors.Is(err, segment.ErrLong):
			continue
		case err != nil:
			return record.Entry{}, err
		}
		link, err := segment.ParseLink(line)
		if err != nil || link.Sequence <= s.after {
			continue
		}
		if at, ok := record.TimeOf(line); ok && at.Before(s.since) {
			s.after = link.Sequence
			continue
		}
		if entry, err := record.Parse(s.slot, line); err == nil {
			s.after = link.Sequence
			return entry, nil
		}
	}
}

// turn goes to the next segment if there is one. If not, it returns io.EOF and
// stays where the last whole line ended.
func (s *slotReader) turn() error {
	numbers, err := segment.List(s.dir)
	if err != nil {
		return err
	}
	// Not simply number+1: a file may be missing, which is for Verify to say.
	if after, _ := slices.BinarySearch(numbers, s.number+1); after < len(numbers) {
		// The old segment may have grown between its end and now.
		if line, err := s.again(); err == nil && line {
			return nil
		}
		s.close()
		err := s.openSegment(numbers[after])
		if errors.Is(err, os.ErrNotExist) { // retention was faster: what is there now is opened next
			return nil
		}
		return err
	}
	if _, err := s.again(); err != nil {
		return err
	}
	return io.EOF
}

// again goes back to the end of the last whole line and reports whether there
// is a line behind it.
func (s *slotReader) again() (bool, error) {
	if _, err := s.file.Seek(s.lines.Start, io.SeekStart); err != nil {
		return false, err
	}
	probe := segment.NewLines(s.file, s.lines.Start)
	_, err := probe.Next()
	if _, serr := s.file.Seek(s.lines.Start, io.SeekStart); serr != nil {
		return false, serr
	}
	s.lines = segment.NewLines(s.file, s.lines.Start)
	return err == nil, nil
}

// advance opens the segment that holds the first wanted record. Retention may remove some
// between the look at the folder and the file: then it looks again.
func (s *slotReader) advance() (err error) {
	for range looks {
		if err = s.find(); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return err
}

func (s *slotReader) find() error {
	numbers, err := segment.List(s.dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(numbers) == 0 {
		return io.EOF
	}
	if err != nil {
		return err
	}
	index, err := segment.Of(s.dir, numbers, s.after+1)
	switch {
	case errors.Is(err, segment.ErrForm), errors.Is(err, segment.ErrLong):
		index = 0 // where a segment begins is not known, so all are read
	case err != nil:
		return err
	}
	return s.openSegment(numbers[index])
}

func (s *slotReader) openSegment(number int) error {
	f, err := os.Open(filepath.Join(s.dir, segment.Name(number)))
	if err != nil {
		return err
	}
	s.file, s.number, s.lines = f, number, segment.NewLines(f, 0)
	return nil
}

// merge reads all slots of an audit folder in the order of time.
type merge struct {
	dir     string
	since   time.Time
	seen    map[string]uint64 // by slot, up to which record all are skipped
	readers map[string]*slotReader
	heads   map[string]record.Entry
}

func newMerge(dir string, since time.Time, seen map[string]uint64) *merge {
	return &merge{dir: dir, since: since, seen: seen, readers: map[string]*slotReader{}, heads: map[string]record.Entry{}}
}

func (m *merge) close() {
	for _, r := range m.readers {
		r.close()
	}
}

// fill looks for slots that are new and for records in those that had none.
func (m *merge) fill() error {
	names, err := segment.Slots(m.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if m.readers[name] == nil {
			m.readers[name] = &slotReader{dir: filepath.Join(m.dir, name), slot: name, since: m.since, after: m.seen[name]}
		}
		if err := m.pull(name); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) pull(slot string) error {
	if _, ok := m.heads[slot]; ok {
		return nil
	}
	entry, err := m.readers[slot].next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read audit slot %s: %w", slot, err)
	}
	m.heads[slot] = entry
	return nil
}

// next returns the earliest of the records at hand, or io.EOF.
func (m *merge) next() (record.Entry, error) {
	first, found := record.Entry{}, false
	for _, e := range m.heads {
		if !found || e.Time.Before(first.Time) || e.Time.Equal(first.Time) && e.Slot < first.Slot {
			first, found = e, true
		}
	}
	if !found {
		return record.Entry{}, io.EOF
	}
	delete(m.heads, first.Slot)
	return first, m.pull(first.Slot)
}

// Read yields the records of all slots in the order of time, those that q
// selects; q.Limit 0 means all. An error is the last thing it yields.
func Read(ctx context.Context, dir string, q Query) iter.Seq2[record.Entry, error] {
	return stream(ctx, dir, q, nil, nil)
}

// Tail yields what [Read] does, of each slot what stands behind the record that seen has of
// it, and then waits for more, until ctx ends; after is time.After or a double of it. Records
// of several slots that are found together are in the order of time.
func Tail(ctx context.Context, dir string, q Query, seen map[string]uint64, after func(time.Duration) <-chan time.Time) iter.Seq2[record.Entry, error] {
	return stream(ctx, dir, q, seen, after)
}

func stream(ctx context.Context, dir string, q Query, seen map[string]uint64, after func(time.Duration) <-chan time.Time) iter.Seq2[record.Entry, error] {
	return func(yield func(record.Entry, error) bool) {
		m := newMerge(dir, q.Since, seen)
		defer m.close()
		count := 0
		for {
			if err := m.fill(); err != nil {
				yield(record.Entry{}, err)
				return
			}
			for {
				entry, err := m.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err == nil {
					err = ctx.Err()
				}
				if err != nil {
					yield(record.Entry{}, err)
					return
				}
				if !q.Matches(&entry) {
					continue
				}
				if !yield(entry, nil) {
					return
				}
				if count++; count == q.Limit {
					return
				}
			}
			if after == nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-after(tailInterval):
			}
		}
	}
}
