package app

import (
	"context"
	"iter"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit"
)

// Record is one record of the trail as the index keeps it.
type Record = audit.Entry

// RecordQuery selects records.
type RecordQuery = audit.Query

// OpenToRead opens what reading the trail needs: the home and the index, no
// vault and no writer. A trail that was tampered with can still be looked at.
func (a *App) OpenToRead(ctx context.Context) error {
	if err := a.home.check(a.o.UID); err != nil {
		return err
	}
	return a.openStore(ctx)
}

// SearchTrail returns matching records, the newest first. The index is brought
// up to date first.
func (a *App) SearchTrail(ctx context.Context, q RecordQuery) ([]Record, error) {
	return audit.Search(ctx, a.auditDir(), a.store, q)
}

// ReadTrail yields records in the order of time; with follow it then waits for
// more until ctx ends.
func (a *App) ReadTrail(ctx context.Context, q RecordQuery, follow bool) iter.Seq2[Record, error] {
	if follow {
		return audit.Tail(ctx, a.auditDir(), q, time.After)
	}
	return audit.Read(ctx, a.auditDir(), q)
}
