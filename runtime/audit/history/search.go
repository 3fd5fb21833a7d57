package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// defaultLimit is what Query.Limit 0 means for a search.
const defaultLimit = 100

// Index is the search table over the ledger: filled in batches, behind the
// truth, and rebuildable from it. It is safe for concurrent use, also by
// several processes.
type Index interface {
	// AddEntries adds or replaces entries by Slot and Sequence, and with an
	// outcome updates the row of its intent.
	AddEntries(ctx context.Context, entries []record.Entry) error
	// Position returns the last sequence indexed of a slot, 0 when none is.
	Position(ctx context.Context, slot string) (uint64, error)
	// SearchEntries returns matches, newest first.
	SearchEntries(ctx context.Context, q Query) ([]record.Entry, error)
	// DropEntries forgets the entries of a slot up to a sequence: they were given up.
	DropEntries(ctx context.Context, slot string, upTo uint64) error
	// ResetIndex forgets everything, for a rebuild.
	ResetIndex(ctx context.Context) error
}

// batchSize is how many entries the index gets at a time.
const batchSize = 500

// Reindex adds to the index what the ledger has and it has not. To rebuild an
// index, reset it first.
func Reindex(ctx context.Context, dir string, index Index) error {
	names, err := segment.Slots(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := reindexSlot(ctx, dir, name, index); err != nil {
			return fmt.Errorf("index audit slot %s: %w", name, err)
		}
	}
	return nil
}

func reindexSlot(ctx context.Context, dir, slot string, index Index) error {
	position, err := index.Position(ctx, slot)
	if err != nil {
		return err
	}
	reader := &slotReader{dir: filepath.Join(dir, slot), slot: slot, after: position}
	defer reader.close()
	batch := make([]record.Entry, 0, batchSize)
	for {
		entry, err := reader.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := err != nil
		if !ended {
			batch = append(batch, entry)
		}
		if len(batch) == batchSize || ended && len(batch) > 0 {
			if err := index.AddEntries(ctx, batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
		if ended {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// Search returns the newest matches, newest first. It brings the index up to
// date and asks it; when the index is missing or fails, it scans the ledger,
// which is slower and as true.
func Search(ctx context.Context, dir string, index Index, q Query) ([]record.Entry, error) {
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	if index != nil && (q.RequestID != "" || q.Execution != "") {
		if n, err := behind(ctx, dir, index); err == nil && n > farBehind {
			return ofOne(ctx, dir, q)
		}
	}
	if index != nil && Reindex(ctx, dir, index) == nil {
		if found, err := index.SearchEntries(ctx, q); err == nil {
			return found, nil
		}
	}
	return scan(ctx, dir, q)
}

// scan reads the whole ledger and keeps the newest matches.
func scan(ctx context.Context, dir string, q Query) ([]record.Entry, error) {
	limit := q.Limit
	q.Limit = 0
	ring := make([]record.Entry, 0, limit)
	count := 0
	for entry, err := range Read(ctx, dir, q) {
		if err != nil {
			return nil, err
		}
		if len(ring) < limit {
			ring = append(ring, entry)
		} else {
			ring[count%limit] = entry
		}
		count++
	}
	if count > limit {
		ring = append(ring[count%limit:], ring[:count%limit]...)
	}
	slices.Reverse(ring)
	return ring, nil
}
