package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/store/tables"
)

// Without its store a home has its files: the trail, the services, the rules. Nothing that
// is asked of the store then has another answer than why there is none, so nothing can be
// decided by mistake on what is not known.

// goWithout goes on without the store.
func (a *App) goWithout(why error) {
	a.storeless = runtime.AsError(why)
	a.shared, a.homeName = nil, ""
	a.store = noStore{tables.New(refusing{a.storeless}), a.storeless}
}

// noStore refuses everything.
type noStore struct {
	*tables.Store
	why error
}

var _ store = noStore{}

// Changes has the error that everything has.
func (n noStore) Changes(context.Context) (int64, error) { return 0, n.why }

// refusing is an engine without a database.
type refusing struct{ why error }

var _ tables.Engine = refusing{}

// Query implements [tables.Engine].
func (r refusing) Query(context.Context, string, string, []any, func(tables.Row) error) error {
	return r.why
}

// Exec implements [tables.Engine].
func (r refusing) Exec(context.Context, string, string, []any) (int64, error) { return 0, r.why }

// Write implements [tables.Engine].
func (r refusing) Write(context.Context, string, func(tables.Tx) error) error { return r.why }

// Dialect implements [tables.Engine]. Nothing is ever said in it.
func (refusing) Dialect() tables.Dialect { return tables.Dialect{} }

// noIndex is the index of a trail whose database cannot be opened.
type noIndex struct{ why error }

var _ history.Index = noIndex{}

// AddEntries implements [history.Index], as all of these with the error that there is.
func (n noIndex) AddEntries(context.Context, []record.Entry) error { return n.why }

// Position implements [history.Index].
func (n noIndex) Position(context.Context, string) (uint64, error) { return 0, n.why }

// Line implements [history.Index].
func (n noIndex) Line(context.Context, string, uint64) ([]byte, error) { return nil, n.why }

// SearchEntries implements [history.Index].
func (n noIndex) SearchEntries(context.Context, history.Query) ([]record.Entry, error) {
	return nil, n.why
}

// DropEntries implements [history.Index].
func (n noIndex) DropEntries(context.Context, string, uint64) error { return n.why }

// ResetIndex implements [history.Index].
func (n noIndex) ResetIndex(context.Context) error { return n.why }

// lockedStoreless is why the vault is closed: its owner locked it here, or nobody knows.
func (a *App) lockedStoreless(ctx context.Context) *runtime.Error {
	if e := runtime.AsError(a.ordered(ctx)); e.Reason == runtime.ReasonLocked {
		return e
	}
	return &runtime.Error{
		Code: runtime.CodeVaultLocked, Reason: runtime.ReasonStorageUnavailable, Stage: runtime.StageCredential,
		Msg: "nobody knows without the store whether it may be opened", Hint: "kimbap doctor", Err: a.storeless,
	}
}

// doctorStore says how the database is that homes share.
func (a *App) doctorStore(context.Context) Finding {
	if why := a.storeless; why != nil {
		return Finding{"store", "fail", why.Msg, why.Hint}
	}
	return Finding{"store", "ok", a.StoreName(), ""}
}

// StoreName says which database homes share, "" where the store is in the home.
func (a *App) StoreName() string {
	if a.shared == nil {
		return ""
	}
	return "PostgreSQL " + a.shared.Name()
}

// notKnown is what doctor says of what only the store could tell.
func notKnown(check string) Finding {
	return Finding{check, "warn", "not known without the store", ""}
}

// lockedElsewhere is what a lock without the store does not reach, and why.
func (a *App) lockedElsewhere(why *runtime.Error, sealed bool) *runtime.Error {
	e := &runtime.Error{
		Code: runtime.CodeStorageBusy, Reason: runtime.ReasonStorageUnavailable, Err: why,
		Msg:  "the vault is closed for all that runs over this home, and for no other machine yet: " + why.Msg,
		Hint: strings.TrimPrefix(why.Hint+"; then kimbap lock again", "; then "),
	}
	if _, gone := a.index.(noIndex); !a.Shares() && a.unread == nil && (gone || a.storeless == nil) { // else there may be other machines
		e.Msg = "the vault is closed for all that runs over this home, by a file, since its database could not be told: " + why.Msg
	}
	if sealed {
		e.Msg = fmt.Sprintf("%s; the master key is not sealed, and runs keep their tokens", e.Msg)
	}
	return e
}
