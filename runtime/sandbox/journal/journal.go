// Package journal is what is kept of a script while it runs and for a while
// after: its source, its calls in the order they were made, the order in which
// they were answered, and how it ended. With it a script that waited for a person
// is run again up to the point where it was.
//
// The package has words only: the store keeps them, runtime/sandbox fills them.
// Sources, arguments and results come sealed; a store sees names, states and
// times. Start reading at [Store].
package journal

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// State is how far an execution has come.
type State string

// The states. Ended is the last one.
const (
	Running State = "running"
	Paused  State = "paused" // it waits for a person, and nothing of it runs
	Ended   State = "ended"
)

// Execution is one script that was run.
type Execution struct {
	ID        string // "exe_…"
	Tenant    runtime.Tenant
	Principal string // who runs it, and alone may go on with it
	State     State
	Holder    string // the process that runs it, or did
	Script    []byte // source, limits, clock and seed, sealed
	Result    []byte // what its caller was told last, sealed; empty: nothing yet
	Created   time.Time
	Expires   time.Time // it may be forgotten after
}

// Call is one call of a script, a timer included.
type Call struct {
	Step    int    // from 1, in the order the script made them
	Settled int    // from 1, in the order they were answered; 0: not yet
	Sealed  []byte // what was asked and answered
}

// Store keeps executions. It is safe for concurrent use, also by several
// processes.
type Store interface {
	// WriteExecution keeps the execution and adds or replaces these calls, all or
	// nothing. False when it is there already and another process holds it, or it
	// has ended: then nothing is written.
	WriteExecution(ctx context.Context, e Execution, calls []Call) (bool, error)
	// Execution returns one by id; false when the tenant has none such.
	Execution(ctx context.Context, tenant runtime.Tenant, id string) (Execution, bool, error)
	// ExecutionCalls returns its calls by step.
	ExecutionCalls(ctx context.Context, tenant runtime.Tenant, id string) ([]Call, error)
	// ClaimExecution makes it running and held by the process to; false when it is
	// not in that state and held by that process any more.
	ClaimExecution(ctx context.Context, tenant runtime.Tenant, id string, state State, from, to string) (bool, error)
	// DropExecutions forgets those of all tenants that expired before now.
	DropExecutions(ctx context.Context, now time.Time) error
	// ExecutionBytes returns how many bytes are kept of a principal's executions, and of
	// all. Each counts a few more than what was given.
	ExecutionBytes(ctx context.Context, tenant runtime.Tenant, principal string) (own, all int64, err error)
	// MostExecutions returns the principal of which most bytes are kept, of those that have
	// an execution that has ended; "" when there is none.
	MostExecutions(ctx context.Context) (tenant runtime.Tenant, principal string, err error)
	// ForgetEnded forgets executions of a principal that have ended, the oldest first, until
	// so many bytes are free, or some of that; 0: it has none.
	ForgetEnded(ctx context.Context, tenant runtime.Tenant, principal string, bytes int64) (freed int64, err error)
}
