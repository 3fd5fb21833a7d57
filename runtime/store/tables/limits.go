package tables

import (
	"context"
	"time"
)

// forgotten is how long after it was full again a bucket may be dropped: it is
// then like one that nobody has used.
const forgotten = 24 * time.Hour

// ChangeLimit implements [limit.Store]. Moments are kept in nanoseconds.
func (s *Store) ChangeLimit(ctx context.Context, bucket string, change func(full time.Time) time.Time) error {
	return s.write(ctx, "take from a limit", func(t Tx) error {
		if err := t.Turn("limit " + bucket); err != nil {
			return err
		}
		var stored int64
		found, err := t.get("SELECT full_at FROM limits WHERE bucket = ?", []any{bucket}, &stored)
		if err != nil {
			return err
		}
		full := time.Time{}
		if found {
			full = time.Unix(0, stored).UTC()
		}
		full = change(full)
		if !found {
			if _, err = t.Exec("DELETE FROM limits WHERE full_at < ?", full.Add(-forgotten).UnixNano()); err != nil {
				return err
			}
		}
		// One that was found may be forgotten by who takes from another one meanwhile.
		_, err = t.Exec(`INSERT INTO limits (bucket, full_at) VALUES (?, ?)
			ON CONFLICT (bucket) DO UPDATE SET full_at = excluded.full_at`, bucket, full.UnixNano())
		return err
	})
}
