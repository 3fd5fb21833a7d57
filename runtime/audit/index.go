package audit

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Index is the search table over the ledger: filled in batches, behind the
// truth, and rebuildable from it. It is safe for concurrent use, also by
// several processes.
type Index interface {
	// AddEntries adds or replaces entries by Slot and Sequence, and with an
	// outcome updates the row of its intent.
	AddEntries(ctx context.Context, entries []Entry) error
	// Position returns the last sequence indexed of a slot, 0 when none is.
	Position(ctx context.Context, slot string) (uint64, error)
	// SearchEntries returns matches, newest first.
	SearchEntries(ctx context.Context, q Query) ([]Entry, error)
	// ResetIndex forgets everything, for a rebuild.
	ResetIndex(ctx context.Context) error
}

// Entry is one ledger record in the index.
type Entry struct {
	Slot      string
	Sequence  uint64
	Kind      string // intent | outcome | refusal | event
	Time      time.Time
	RequestID string
	Tenant    runtime.Tenant
	Agent     string
	Principal string
	Surface   runtime.Surface
	Action    runtime.Ref
	Effect    string
	Rule      string
	Host      string
	Status    int
	Code      string // error code, "" when it went well
	Line      []byte // the record itself, one line of JSON without the newline
}

// Query selects entries. Zero fields do not filter; Limit 0 means 100.
type Query struct {
	Tenant    runtime.Tenant
	RequestID string
	Action    runtime.Glob
	Agent     runtime.Glob
	Host      runtime.Glob
	Effect    string
	Code      string
	Kind      string
	Text      string // substring of the line
	Since     time.Time
	Until     time.Time
	Limit     int
}
