package history

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Newest returns the newest matches, the newest first and q.Limit of them, without an index:
// it reads each slot from its end, most bytes of it at the most (0: all), and what is not
// asked for it does not even parse. So what happened lately is told at once, however long the
// trail is. Intents do not say here how they ended.
func Newest(ctx context.Context, dir string, q Query, most int64) ([]record.Entry, error) {
	return first(&q, back(ctx, dir, q, func(slot string) *latest {
		return &latest{dir: filepath.Join(dir, slot), slot: slot, bounded: most > 0, left: most}
	}))
}

// newestEnded is Newest of whole slots, as an index says it: intents say how they ended, and
// records that a writer took up a moment late are in the order of time.
func newestEnded(ctx context.Context, dir string, q Query) ([]record.Entry, error) {
	found, err := first(&q, back(ctx, dir, q, func(slot string) *latest {
		dir := filepath.Join(dir, slot)
		return &latest{dir: dir, slot: slot, endings: &endings{dir: dir, slot: slot, code: q.Code, of: map[uint64]ending{}}}
	}))
	slices.SortFunc(found, func(a, b record.Entry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Slot, b.Slot), cmp.Compare(b.Sequence, a.Sequence))
	})
	return found, err
}

// LastOf is when the last record of a tenant was made, by the clock of then; zero for none.
func LastOf(ctx context.Context, dir string, tenant runtime.Tenant) (last time.Time, err error) {
	for e, err := range back(ctx, dir, Query{Tenant: tenant}, func(slot string) *latest { return &latest{dir: filepath.Join(dir, slot), slot: slot} }) {
		if err != nil {
			return time.Time{}, err
		}
		if e.Time.After(last) { // not the first of them: the clock may have been set back
			last = e.Time
		}
	}
	return last, nil
}

// first takes the first q.Limit records.
func first(q *Query, records iter.Seq2[record.Entry, error]) (found []record.Entry, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	for e, err := range records {
		if err != nil {
			return nil, err
		}
		if found = append(found, e); len(found) == limit {
			break
		}
	}
	return found, nil
}

// back yields all matches, the newest first, from what opened returns for each slot. An error
// is the last thing it yields.
func back(ctx context.Context, dir string, q Query, opened func(slot string) *latest) iter.Seq2[record.Entry, error] {
	return func(yield func(record.Entry, error) bool) {
		names, err := segment.Slots(dir)
		heads := map[*latest]record.Entry{}
		pull := func(s *latest) error {
			switch e, err := s.before(ctx, &q); {
			case err == nil:
				heads[s] = e
			case !errors.Is(err, io.EOF):
				return fmt.Errorf("read audit slot %s: %w", s.slot, err)
			}
			return nil
		}
		for _, name := range names {
			s := opened(name)
			s.texts = q.texts()
			defer s.close()
			if err == nil {
				err = pull(s)
			}
		}
		for err == nil && len(heads) > 0 {
			var next *latest
			for s, e := range heads {
				if next == nil || e.Time.After(heads[next].Time) || e.Time.Equal(heads[next].Time) && s.slot < next.slot {
					next = s
				}
			}
			if !yield(heads[next], nil) {
				return
			}
			delete(heads, next)
			err = pull(next)
		}
		if err != nil {
			yield(record.Entry{}, err)
		}
	}
}

// Ends returns the number of the last record of each slot that has one.
func Ends(ctx context.Context, dir string) (map[string]uint64, error) {
	names, err := segment.Slots(dir)
	if err != nil {
		return nil, err
	}
	ends := map[string]uint64{}
	for _, name := range names {
		s := &latest{dir: filepath.Join(dir, name), slot: name}
		e, err := s.before(ctx, &Query{})
		s.close()
		switch {
		case err == nil:
			ends[name] = e.Sequence
		case !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("read audit slot %s: %w", name, err)
		}
	}
	return ends, nil
}

// latest reads a slot from its end.
type latest struct {
	dir     string // of the slot
	slot    string
	texts   [][]byte // lines without one of them are no match
	bounded bool
	left    int64 // bytes that may still be read, with bounded
	numbers []int // of the segments before the open one
	listed  bool
	count   int // of the lines that were read
	number  int // of the open one
	file    *os.File
	lines   *segment.Backward
	endings *endings // nil: intents do not say how they ended
}

func (s *latest) close() {
	if s.file != nil {
		_ = s.file.Close()
		s.file = nil
	}
}

// before returns the match before the one that it last returned; io.EOF if there is none.
func (s *latest) before(ctx context.Context, q *Query) (record.Entry, error) {
	for {
		if s.count++; s.count%1000 == 0 {
			if err := ctx.Err(); err != nil {
				return record.Entry{}, err
			}
		}
		if s.file == nil {
			if err := s.open(); err != nil {
				return record.Entry{}, err
			}
		}
		at := s.lines.Start
		line, err := s.lines.Next()
		s.left -= at - s.lines.Start
		switch {
		case errors.Is(err, io.EOF):
			s.close()
			continue
		case errors.Is(err, segment.ErrLong):
			continue
		case err != nil:
			return record.Entry{}, err
		case s.bounded && s.left < 0:
			return record.Entry{}, io.EOF
		}
		link, err := segment.ParseLink(line)
		if err != nil {
			continue
		}
		var ended *ending
		if s.endings != nil {
			ended = s.endings.meet(link, s.number, s.lines.Start, line)
		}
		if !s.may(q, link.Kind, line, ended) {
			continue
		}
		e, err := record.Parse(s.slot, line)
		if err != nil {
			continue
		}
		if ended != nil {
			s.endings.tell(&e, ended)
		}
		if q.Matches(&e) {
			return e, nil
		}
	}
}

// may reports whether a line may be a match, before it is parsed.
func (s *latest) may(q *Query, kind record.Kind, line []byte, ended *ending) bool {
	if q.Kind != "" && q.Kind != string(kind) || slices.ContainsFunc(s.texts, func(text []byte) bool { return !bytes.Contains(line, text) }) {
		return false
	}
	if !bytes.Contains(line, []byte(q.Code)) && (ended == nil || !ended.code) {
		return false
	}
	at, ok := record.TimeOf(line)
	// One before q.Since is not the end: the clock may have been set back.
	return !ok || !at.Before(q.Since) && (q.Until.IsZero() || at.Before(q.Until))
}

// texts are what the line of each match holds, as it stands there, beside the code: most lines
// are told from a match by that. Of a glob it is what JSON never escapes.
func (q *Query) texts() (out [][]byte) {
	all := []string{q.Text, q.RequestID, q.Execution, q.Effect}
	if !q.Home {
		all = append(all, string(q.Tenant))
	}
	for _, g := range []runtime.Glob{q.Action, q.Agent, q.Host} {
		all = append(all, strings.FieldsFunc(string(g), func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
		})...)
	}
	for _, text := range all {
		if text != "" {
			out = append(out, []byte(text))
		}
	}
	return out
}

// open opens the segment before the one that was read, io.EOF if there is none.
func (s *latest) open() error {
	if !s.listed {
		numbers, err := segment.List(s.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.numbers, s.listed = numbers, true
	}
	if len(s.numbers) == 0 {
		return io.EOF
	}
	last := len(s.numbers) - 1
	s.number, s.numbers = s.numbers[last], s.numbers[:last]
	f, err := os.Open(filepath.Join(s.dir, segment.Name(s.number)))
	if errors.Is(err, fs.ErrNotExist) { // it was given up, as all before it
		return io.EOF
	}
	if err != nil {
		return err
	}
	var end int64
	info, err := f.Stat()
	if err == nil {
		end, err = segment.RecordsEnd(f, info.Size())
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	s.file, s.lines = f, segment.NewBackward(f, end)
	return nil
}
