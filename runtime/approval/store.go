package approval

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// State is where an approval stands. The transitions are
// pending → approved | rejected | expired, approved → executing | expired,
// executing → executed | failed | unknown.
type State string

// The states.
const (
	Pending   State = "pending"
	Approved  State = "approved"
	Rejected  State = "rejected"
	Expired   State = "expired"
	Executing State = "executing"
	Executed  State = "executed"
	Failed    State = "failed"
	Unknown   State = "unknown" // it was cut off while executing, or the process died
)

// Store keeps approvals. It is safe for concurrent use, also by several
// processes; every change of state is one atomic compare-and-set.
type Store interface {
	AddApproval(ctx context.Context, a Approval) error
	// Approval returns one by id; false when the tenant has none such.
	Approval(ctx context.Context, tenant runtime.Tenant, id string) (Approval, bool, error)
	// OpenApproval returns the newest approval of that principal and digest that
	// is pending or approved; false when there is none.
	OpenApproval(ctx context.Context, tenant runtime.Tenant, principal, digest string) (Approval, bool, error)
	// Approvals lists a tenant's approvals in these states (all when empty), newest first, at most limit.
	Approvals(ctx context.Context, tenant runtime.Tenant, states []State, limit int) ([]Approval, error)
	// PendingOf counts the pending approvals of a principal.
	PendingOf(ctx context.Context, tenant runtime.Tenant, principal string) (int, error)
	// Move changes the state from one to another and applies the change;
	// false when the approval was not in the first state (another was faster).
	Move(ctx context.Context, tenant runtime.Tenant, id string, from, to State, c Change) (bool, error)
	// Beat says that somebody of the tenant can answer until then.
	Beat(ctx context.Context, tenant runtime.Tenant, who string, until time.Time) error
	// Watched reports whether somebody can answer now.
	Watched(ctx context.Context, tenant runtime.Tenant, now time.Time) (bool, error)
}

// Change is what a [Store.Move] writes beside the state. Empty fields keep
// what is stored.
type Change struct {
	At       time.Time // becomes Decided with Approved and Rejected, Ended with Executed, Failed and Unknown
	By       string    // who decided
	Presence string
	Note     string // reason of a rejection, error of a failed execution
	Holder   string // the process that executes
	Proof    []byte // the yes, sealed, so that an edited row cannot pass for one
}

// Approval is one question to a human and what became of it.
type Approval struct {
	ID        string // "apr_…"
	Tenant    runtime.Tenant
	State     State
	Principal string // id of the requester
	Agent     string
	Run       string
	Surface   runtime.Surface
	Action    runtime.Ref
	Risk      runtime.Risk
	Rule      string
	Reason    string
	Method    string
	Authority string
	Path      string // without the query, which may hold the caller's own key
	Digest    string // hex SHA-256 of exactly what was asked
	Sealed    []byte // the held request, sealed under the tenant key
	Created   time.Time
	Expires   time.Time
	Decided   time.Time
	By        string
	Presence  string
	Note      string
	Holder    string
	Proof     []byte    // the yes, sealed under the tenant key; empty until approved
	Ended     time.Time // executed, failed or unknown
}
