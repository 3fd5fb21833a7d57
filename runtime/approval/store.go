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

// Closed reports whether nothing leads out of the state: the request of such an approval
// is never executed again.
func (s State) Closed() bool {
	switch s {
	case Rejected, Expired, Executed, Failed, Unknown:
		return true
	}
	return false
}

// Store keeps approvals. It is safe for concurrent use, also by several
// processes; every change of state is one atomic compare-and-set.
type Store interface {
	AddApproval(ctx context.Context, a Approval) error
	// Ask adds a pending approval, unless there is one that OpenApproval would return for
	// the same principal and digest: that it returns instead, with found. Of identical
	// requests that come at once, through whichever process, one is added. Where the
	// principal has so many pending ones already it adds none and returns [ErrCrowded].
	Ask(ctx context.Context, a Approval, refused Between, most int) (open Approval, found bool, err error)
	// Approval returns one by id; false when the tenant has none such.
	Approval(ctx context.Context, tenant runtime.Tenant, id string) (Approval, bool, error)
	// Glance is Approval without Sealed, Proof and Kept, which it does not read: a held
	// request may be megabytes, and who waits asks several times a second.
	Glance(ctx context.Context, tenant runtime.Tenant, id string) (Approval, bool, error)
	// OpenApproval returns the newest approval of that principal and digest that
	// is pending, approved, or was rejected in that stretch; false when there is none.
	// Like Glance it leaves out what is sealed.
	OpenApproval(ctx context.Context, tenant runtime.Tenant, principal, digest string, refused Between) (Approval, bool, error)
	// Approvals lists a tenant's approvals of a principal (of all when empty) in these
	// states (all when empty), newest first, at most limit. Like Glance it leaves out
	// what is sealed.
	Approvals(ctx context.Context, tenant runtime.Tenant, principal string, states []State, limit int) ([]Approval, error)
	// PendingOf counts the pending approvals of a principal.
	PendingOf(ctx context.Context, tenant runtime.Tenant, principal string) (int, error)
	// Move changes the state from one to another and applies the change;
	// false when the approval was not in the first state (another was faster).
	Move(ctx context.Context, tenant runtime.Tenant, id string, from, to State, c Change) (bool, error)
	// Unreleased returns the ids of a tenant's closed approvals that have Sealed still,
	// at most limit; it reads nothing of that.
	Unreleased(ctx context.Context, tenant runtime.Tenant, limit int) ([]string, error)
	// Release removes Sealed of a closed approval and keeps Kept instead, at once; false
	// when it is not closed or has none.
	Release(ctx context.Context, tenant runtime.Tenant, id string, kept []byte) (bool, error)
	// Beat says that somebody of the tenant can answer until then.
	Beat(ctx context.Context, tenant runtime.Tenant, who string, until time.Time) error
	// Watched reports whether somebody can answer until a time in that stretch.
	Watched(ctx context.Context, tenant runtime.Tenant, until Between) (bool, error)
	// SetTeller makes a process the teller of those of a tenant's pending approvals that have
	// another one, at once; false when none had. With to "" they may be closed as well.
	SetTeller(ctx context.Context, tenant runtime.Tenant, ids []string, from, to string) (bool, error)
	// LastApproved returns the approval of that action that was accepted last,
	// whatever became of it since; false when none was.
	LastApproved(ctx context.Context, tenant runtime.Tenant, action runtime.Ref) (Approval, bool, error)

	// AddVote keeps one person's yes of several; false when that person's is there already.
	AddVote(ctx context.Context, v Vote) (bool, error)
	// Votes returns those of an approval, the earliest first.
	Votes(ctx context.Context, tenant runtime.Tenant, id string) ([]Vote, error)

	// AddGrant keeps what a yes allows for longer than once.
	AddGrant(ctx context.Context, g Grant) error
	// Grants returns those of a scope that are neither revoked nor past their
	// time, the newest first; of all scopes when it is empty.
	Grants(ctx context.Context, tenant runtime.Tenant, scope string, now time.Time) ([]Grant, error)
	// RevokeGrant ends one; false when there is none, or none any more.
	RevokeGrant(ctx context.Context, tenant runtime.Tenant, id string, at time.Time) (bool, error)

	// Pins returns who of the tenant has a PIN.
	Pins(ctx context.Context, tenant runtime.Tenant) ([]Pin, error)
	// AllPins returns who of any tenant has one.
	AllPins(ctx context.Context) ([]Pin, error)
	// PutPin keeps a PIN, in place of that person's old one, with no tries.
	PutPin(ctx context.Context, p Pin) error
	// RemovePin takes a person's PIN away; false when there is none.
	RemovePin(ctx context.Context, tenant runtime.Tenant, who string) (bool, error)
	// TryPin counts one try more and closes the PIN until then; false when the
	// tries are not that many, because another try came between.
	TryPin(ctx context.Context, tenant runtime.Tenant, who string, tries int, until time.Time) (bool, error)
	// ClearTries forgets the tries of a person.
	ClearTries(ctx context.Context, tenant runtime.Tenant, who string) error
}

// Open reports whether it was neither refused nor used yet.
func (a *Approval) Open() bool { return a.State == Pending || a.State == Approved }

// Between is a stretch of time: what comes after one moment and not after the other.
type Between struct{ After, Until time.Time }

// Vote is one person's yes where several must agree.
type Vote struct {
	Tenant   runtime.Tenant
	Approval string
	Who      string
	Proof    []byte // the yes, sealed under the tenant key
	Given    time.Time
}

// Grant is what a yes allows for longer than once.
type Grant struct {
	Tenant  runtime.Tenant
	ID      string // of the approval that was accepted so
	Scope   string // hex SHA-256 of what is allowed
	Sealed  []byte // who allowed what until when, sealed under the tenant key
	Expires time.Time
	Revoked time.Time
}

// Pin is what proves that a person is one. The PIN itself is not kept.
type Pin struct {
	Tenant runtime.Tenant
	Who    string
	Sealed []byte // salt and Argon2id key of the PIN, sealed under the tenant key
	Set    time.Time
	Tries  int       // wrong ones in a row
	Until  time.Time // no try is taken before
}

// Change is what a [Store.Move] writes beside the state. Empty fields keep
// what is stored.
type Change struct {
	At       time.Time // becomes Decided with Approved and Rejected, Ended with Executed, Failed and Unknown
	By       string    // who decided
	Presence string
	Note     string // reason of a rejection, error of a failed execution, why nobody has to answer any more
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
	Sealed    []byte // the held request, sealed under the tenant key; empty some time after it is closed
	Kept      []byte // what is shown of it from then on, sealed likewise
	Created   time.Time
	Expires   time.Time
	Decided   time.Time
	By        string
	Presence  string
	Note      string
	Holder    string
	Proof     []byte    // the yes, sealed under the tenant key; empty until approved
	Ended     time.Time // executed, failed or unknown
	Teller    string    // the process that has yet to tell people of the question; "" when none has
}
