package history

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

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
	// Line returns the line of an entry, nil when there is none.
	Line(ctx context.Context, slot string, sequence uint64) ([]byte, error)
	// SearchEntries returns matches, newest first.
	SearchEntries(ctx context.Context, q Query) ([]record.Entry, error)
	// DropEntries forgets the entries of a slot up to a sequence: they were given up.
	DropEntries(ctx context.Context, slot string, upTo uint64) error
	// ResetIndex forgets everything, for a rebuild.
	ResetIndex(ctx context.Context) error
}

// batchSize is how many entries the index gets at a time.
const batchSize = 500

// errAnother is an index that was of another ledger, or of records that a power cut has taken.
var errAnother = errors.New("the index held records that the ledger has not: they are dropped")

// reindex adds to the index what the ledger has and it has not. To rebuild an
// index, reset it first. It fails, and what it has of a slot is dropped, where the ledger does
// not hold the last record of it: the numbers behind may be used again.
func reindex(ctx context.Context, dir string, index Index) error {
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
	last, err := index.Line(ctx, slot, position)
	if err != nil {
		return err
	}
	reader := &slotReader{dir: filepath.Join(dir, slot), slot: slot, after: max(position, 1) - 1}
	defer reader.close()
	batch := make([]record.Entry, 0, batchSize)
	for {
		entry, err := reader.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := err != nil
		known := !ended && entry.Sequence == position
		if position > 0 && (ended || known && !bytes.Equal(entry.Line, last)) {
			return cmp.Or(index.DropEntries(ctx, slot, position), errAnother)
		}
		position = 0 // it was compared
		if !ended && !known {
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

// Search returns the newest matches, newest first. It brings the index up to date and asks it.
// Where the index lacks much, is missing or fails, it reads the ledger from its end, which says
// the same.
func Search(ctx context.Context, dir string, index Index, q Query) ([]record.Entry, error) {
	if q.Limit <= 0 {
		q.Limit = defaultLimit
	}
	if index != nil && !farBehind(ctx, dir, index) && reindex(ctx, dir, index) == nil {
		if found, err := index.SearchEntries(ctx, q); err == nil {
			return found, nil
		}
	}
	return newestEnded(ctx, dir, q)
}

// most is how many records an index may lack before the files themselves are searched: to add
// so many takes seconds, and to read them far less.
const most = 20_000

// farBehind reports whether an index lacks more records than that.
func farBehind(ctx context.Context, dir string, index Index) bool {
	ends, err := Ends(ctx, dir)
	if err != nil {
		return true
	}
	lacks := uint64(0)
	for slot, end := range ends {
		have, err := index.Position(ctx, slot)
		if err != nil {
			return true
		}
		lacks += end - min(have, end)
	}
	return lacks > most
}
