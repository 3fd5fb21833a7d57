package app

import (
	"context"
	"iter"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/proof"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// Record is one record of the trail as the index keeps it.
type Record = record.Entry

// RecordQuery selects records.
type RecordQuery = history.Query

// TrailReport is what verification found.
type TrailReport = proof.Report

// auditDir is audit.dir or the home's own.
func (a *App) auditDir() string {
	if dir := a.config.Current().Audit.Dir; dir != "" {
		return dir
	}
	return a.home.Audit()
}

// redactor gives the trail its keyed hashes.
type redactor struct{ vault *vault.Vault }

// Known tells what of a tenant is stored. All but the first call of a process,
// and the first after a change, are answered from memory.
func (r redactor) Known(tenant runtime.Tenant) (func(string) bool, error) {
	return r.vault.Known(context.Background(), tenant) // reading the store does not wait for who writes
}

// Hash returns the keyed hash of a value of the tenant.
func (r redactor) Hash(tenant runtime.Tenant, value string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	hash, err := r.vault.HashKey(ctx, tenant)
	if err != nil {
		return "", err
	}
	return hash(value), nil
}

// OpenToRead opens what reading the trail needs: the home and the index, no
// vault and no writer. A trail that was tampered with can still be looked at, and so can
// that of a home whose store does not answer, or whose database cannot be opened
// ([App.Indexless]).
func (a *App) OpenToRead(ctx context.Context) error {
	if err := a.home.Check(a.o.UID); err != nil {
		return err
	}
	if err := a.checkTenant(); err != nil {
		return err
	}
	local, err := a.openIndex(ctx)
	if err != nil && ctx.Err() != nil {
		return err
	}
	if err != nil { // the files of the trail are the truth, and there still
		a.indexless, a.index = runtime.AsError(err), noIndex{err}
		a.toStore = func(context.Context) error { return err }
		return nil
	}
	a.toStore = func(ctx context.Context) error { return a.openShared(ctx, local) }
	return nil
}

// Indexless says why the trail is read from its files alone, behind [App.OpenToRead]; nil when
// the home's database could be opened.
func (a *App) Indexless() *runtime.Error { return a.indexless }

// reachStore opens the store, behind [App.OpenToRead], for what needs it after all.
func (a *App) reachStore(ctx context.Context) error {
	if a.store != nil {
		return nil
	}
	return a.toStore(ctx)
}

// reachVault opens the vault too.
func (a *App) reachVault(ctx context.Context) error {
	if a.vault != nil {
		return nil
	}
	if err := a.reachStore(ctx); err != nil {
		return err
	}
	return a.openVault(ctx)
}

// SearchTrail returns matching records, the newest first; see [history.Search].
func (a *App) SearchTrail(ctx context.Context, q RecordQuery) ([]Record, error) {
	return history.Search(ctx, a.auditDir(), a.index, a.scoped(q))
}

// recentBytes is how much of each writer's records is looked at for what happened lately: some
// ten thousand requests.
const recentBytes = 16 << 20

// recent returns the newest matching records of late, the newest first. It is what a status
// asks: it takes no longer where there is more in the trail, and writes nothing.
func (a *App) recent(ctx context.Context, q RecordQuery) ([]Record, error) {
	return history.Newest(ctx, a.auditDir(), a.scoped(q), recentBytes)
}

// NewestRecords returns the newest matching records, the newest first, read from the ends of
// the trail's files.
func (a *App) NewestRecords(ctx context.Context, q RecordQuery) ([]Record, error) {
	return history.Newest(ctx, a.auditDir(), a.scoped(q), 0)
}

// TrailEnds are the numbers of the last records that each writer has.
func (a *App) TrailEnds(ctx context.Context) (map[string]uint64, error) {
	return history.Ends(ctx, a.auditDir())
}

// ReadTrail yields records in the order of time.
func (a *App) ReadTrail(ctx context.Context, q RecordQuery) iter.Seq2[Record, error] {
	return history.Read(ctx, a.auditDir(), a.scoped(q))
}

// FollowTrail yields what comes behind the record that seen has of each writer, until ctx ends.
func (a *App) FollowTrail(ctx context.Context, q RecordQuery, seen map[string]uint64) iter.Seq2[Record, error] {
	return history.Tail(ctx, a.auditDir(), a.scoped(q), seen, time.After)
}

// SearchValue returns the newest records of requests that held a value: whether
// it stands there plainly, as its keyed hash, or was masked because it is secret.
// The value itself is not recorded by asking.
func (a *App) SearchValue(ctx context.Context, q RecordQuery, value runtime.Secret) ([]Record, error) {
	if err := a.reachVault(ctx); err != nil {
		return nil, err
	}
	if q.Tenant == AllTenants {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: "each tenant hashes with a key of its own, so a value is looked for in one at a time", Hint: "kimbap --tenant NAME audit search --value-stdin",
		}
	}
	q = a.scoped(q)
	hash, err := a.vault.HashKey(ctx, a.tenant)
	if err != nil {
		return nil, err
	}
	return history.SearchValue(ctx, a.auditDir(), history.Value{Plain: value.Reveal(), Hash: hash(value.Reveal())}, q)
}

// ParseRecord reads a record as another kimbap gave it.
func ParseRecord(line []byte) (Record, error) { return record.Parse("", line) }
