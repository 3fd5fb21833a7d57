package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
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

// newestEnded is Newest as an index says it: in the order of time, also where a writer took a
// record up late or a clock was set back, for which it reads all; and intents say how they
// ended.
func newestEnded(ctx context.Context, dir string, q Query) ([]record.Entry, error) {
	names, err := segment.Slots(dir)
	if err != nil {
		return nil, err
	}
	var found []record.Entry
	for _, name := range names {
		dir := filepath.Join(dir, name)
		s := &latest{dir: dir, slot: name, texts: q.texts(), endings: &endings{dir: dir, slot: name, code: q.Code, of: map[uint64]ending{}}}
		for err == nil {
			var e record.Entry
			if e, err = s.before(ctx, &q); err == nil {
				found = append(found, e)
			}
			if len(found)/2 >= max(q.Limit, defaultLimit) {
				found = byTime(found, q.Limit)
				q.Since = found[q.Limit-1].Time // which no other one can be before
			}
		}
		s.close()
		if !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read audit slot %s: %w", name, err)
		}
		err = nil
	}
	return byTime(found, q.Limit), nil
}

// byTime puts records in the order of time, the newest first, and keeps so many.
func byTime(records []record.Entry, limit int) []record.Entry {
	slices.SortFunc(records, func(a, b record.Entry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Slot, b.Slot), cmp.Compare(b.Sequence, a.Sequence))
	})
	return records[:min(len(records), limit)]
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
