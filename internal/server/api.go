package server

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Item is one of a list, and what a cursor names it by.
type Item struct {
	Key  string
	Body any
}

// Call is an action that is asked for.
type Call struct {
	ID      string // of the request
	Caller  runtime.Caller
	Action  string // service.action
	Input   runtime.Args
	Hold    time.Duration                          // for a person, before it is told that one must decide
	Pending func(approval string, until time.Time) // told when a person is waited for
	Preview bool                                   // show the request, send nothing
	All     bool                                   // of a long answer, every page
	Max     int                                    // so many elements; 0: no such limit
	Room    func() error                           // asked before more than [Large] of its answers is kept
}

// Result is what an action answered: bytes, or with Preview a value that is
// written as JSON, with its text for people.
type Result struct {
	Body    []byte
	Ours    bool // Body is no upstream's own bytes: as raw text it ends with a newline
	Preview any
	Text    string
}

// Agent is what every identified caller may ask for. Who is asking was found by
// [Options.Identify]; whether they may is decided where the thing is done. An id of another
// tenant is an unknown one.
type Agent interface {
	Services(ctx context.Context, who runtime.Principal) ([]Item, error)
	Actions(ctx context.Context, who runtime.Principal, service string) ([]Item, error)
	Action(ctx context.Context, who runtime.Principal, ref string) (any, error)
	Tools(ctx context.Context, who runtime.Principal, name string) (any, error)
	// Search finds tools by words, the best first, without so many of these; a limit of 0 is the
	// usual one.
	Search(ctx context.Context, who runtime.Principal, query string, limit, offset int) (any, error)
	// Advice is how to use one service, or with no name each of them.
	Advice(ctx context.Context, who runtime.Principal, name string) (any, error)
	// Call does an action. Its error is [Undone] where nothing of the call has reached an
	// upstream; of any other it may have happened.
	Call(ctx context.Context, c Call) (Result, error)
	// Approvals are those that who asked for or, of an operator, all of its tenant.
	Approvals(ctx context.Context, who runtime.Principal, all bool) ([]Item, error)
	Approval(ctx context.Context, who runtime.Principal, id string, full bool) (any, error)
	// Collect waits so long (0: not at all) for the decision on a request of the caller's own, executes it
	// when it was accepted, as the request of that id, and returns its result. Room is that of [Call].
	Collect(ctx context.Context, request string, caller runtime.Caller, id string, wait time.Duration, room func() error) (Result, error)
}

// Decision is what an operator says to an approval.
type Decision struct {
	Accept bool
	Note   string // of a no, for the requester
	For    time.Duration
	Run    bool
	Full   bool
	As     string
	PIN    runtime.Secret
}

// Grant is what a new token shall be allowed.
type Grant struct {
	Agent                 string
	Scopes, Roles, Groups []string
	TTL                   time.Duration
}

// Filter selects records; empty fields do not.
type Filter struct {
	Action, Agent, Host, Kind, Effect, Code string
	Request, Execution, Text                string
	Since, Until                            time.Time
}

// Operator is what a role is needed for: [runtime.RoleOperator], or
// [runtime.RoleAdmin] where it says so. All of it is of the tenant of who.
type Operator interface {
	Decide(ctx context.Context, who runtime.Principal, id string, d Decision) (any, error)
	// Standing is what earlier decisions still allow. EndStanding ends one of them, and returns
	// its approval.
	Standing(ctx context.Context, who runtime.Principal) ([]Item, error)
	EndStanding(ctx context.Context, who runtime.Principal, id string) (any, error)
	// Records are the newest first; after is the key of the last one that was seen.
	Records(ctx context.Context, who runtime.Principal, f Filter, after string, limit int) ([]Item, error)
	Tokens(ctx context.Context, who runtime.Principal) ([]Item, error)
	Mint(ctx context.Context, who runtime.Principal, g Grant) (any, error)
	Revoke(ctx context.Context, who runtime.Principal, id string) error
	// RunToken makes a short-lived token for a run of a kimbap elsewhere, under an
	// agent's name: with the scopes and groups of who, and no role of the API.
	// Prolong gives it that short life again, and returns what is left of it.
	RunToken(ctx context.Context, who runtime.Principal, agent string) (any, error)
	Prolong(ctx context.Context, who runtime.Principal, id string) (left time.Duration, err error)
	Secrets(ctx context.Context, who runtime.Principal) ([]Item, error)
	// SetSecret and RemoveSecret are an admin's.
	SetSecret(ctx context.Context, who runtime.Principal, name string, value runtime.Secret, hosts []string) (any, error)
	RemoveSecret(ctx context.Context, who runtime.Principal, name string) error
	Policy(ctx context.Context, who runtime.Principal) ([]byte, error)
	// SetPolicy, an admin's, replaces the text that is there if it still is before.
	SetPolicy(ctx context.Context, who runtime.Principal, before, after []byte) error
}

// Upstream is the error of an upstream that answered with one, and what it said.
type Upstream struct {
	Refusal *runtime.Error
	Said    string
}

// Error implements error.
func (u *Upstream) Error() string { return u.Refusal.Error() }

// Unwrap returns the refusal.
func (u *Upstream) Unwrap() error { return u.Refusal }

// Undone is the error of what has certainly not happened, so that it can be asked for
// again under its Idempotency-Key.
type Undone struct{ Refusal error }

// Error implements error.
func (u *Undone) Error() string { return u.Refusal.Error() }

// Unwrap returns the refusal.
func (u *Undone) Unwrap() error { return u.Refusal }
