package runtime

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// Identifier is stage 1. A caller that cannot be identified is an *Error with
// CodeUnauthenticated, never an anonymous Principal.
type Identifier interface {
	Identify(ctx context.Context, caller Caller) (Principal, error)
}

// Resolver is stage 2. It finds the action, checks the arguments against its
// schema and makes the request where the caller brings none. What it returns is what it
// has judged. CodeUnknownAction and CodeInvalidInput are its errors. It does no IO.
type Resolver interface {
	Resolve(req *Request) (Resolved, error)
}

// Decider is stage 3. Pure: no IO, the clock is in the question. It cannot
// fail; what it cannot decide it denies.
type Decider interface {
	Decide(q Question) Verdict
}

// Limiter keeps the buckets that verdicts name in Limits.
type Limiter interface {
	// Take takes one request from every bucket, or from none. CodeRateLimited,
	// with RetryAfter, when one of them is empty; now is the time it counts by.
	Take(ctx context.Context, limits []Limit, now time.Time) error
}

// Approver is stage 3b, for verdicts that ask a human and for what is collected of a yes.
type Approver interface {
	// Await returns the one-use ticket for exactly this call, consumed, waiting
	// for a human as long as the request's Hold says. CodeApprovalPending,
	// CodeApprovalRejected and CodeApprovalExpired are its errors; they carry
	// the approval's id. A request that names the approval it was held under gets the
	// ticket of that one or none, also where the verdict allows.
	Await(ctx context.Context, call *Call, verdict Verdict) (Ticket, error)
	// Finish records how the execution of a consumed ticket ended, or that
	// nobody knows ([MayHaveHappened]). It must be called once for every ticket,
	// also when nothing was executed. An approver that cannot record it says so
	// itself: the request has ended as it has.
	Finish(ctx context.Context, ticket Ticket, err error) error
}

// Vault is stage 4. It returns the zero Credential when nothing is stored for
// the action; CodeVaultLocked when it cannot know.
type Vault interface {
	Credential(ctx context.Context, tenant Tenant, auth *Auth) (Credential, error)
}

// Backend is stage 5. It sends the call, with the credential added, and gives
// the answer to out as it arrives. The Result is valid also with an error; one
// that comes before anything has left holds [ErrNotSent].
type Backend interface {
	Execute(ctx context.Context, call *Call, out Responder) (Result, error)
}

// Trail is stage 6, before and after. It is safe for concurrent use.
type Trail interface {
	// Ready refuses with CodeAuditUnavailable while the trail cannot be written.
	Ready() error
	// Intent returns when the record is durable, or written where it need not last
	// ([Record.MustLast]), and sets its Sequence.
	// CodeAuditUnavailable otherwise; then nothing may leave.
	Intent(ctx context.Context, r *Record) error
	// Outcome joins the next group write and does not wait for it. Without an
	// intent before it, it is the record of a refusal.
	Outcome(r *Record)
}

// Call is a request that every stage before execution has let through.
type Call struct {
	Request    *Request
	Principal  *Principal
	Action     *Action
	Args       Args
	Others     []Reading // what some server could take it for beside that
	Built      *Built    // what was judged, where the request is built and not Raw; it is not changed
	Credential Credential
	Withheld   bool // there is a credential, and who asks does not get it: see [Request.Page]

	// Again asks whether the call may be sent once more, and renews Credential. A
	// backend that waits and sends again calls it each time: policy may have
	// changed, the token been revoked, the vault been locked. Nil asks nobody.
	Again func(ctx context.Context) error
}

// Responder takes the answer of a backend to the caller, one implementation per
// surface. It is used by one goroutine at a time. Bytes written leave at once.
type Responder interface {
	// Informational passes a 1xx answer on (RFC 9110 section 15.2).
	Informational(status int, header http.Header) error
	// Start sends status and header. Headers belong to the backend until Start,
	// to the Responder after.
	Start(status int, header http.Header) error
	io.Writer
	// Trailer sends trailer fields after the last Write.
	Trailer(header http.Header)
	// Upgrade hands over the caller's connection after Start(101) or a
	// CONNECT's Start(200). The backend closes it.
	Upgrade() (net.Conn, error)
	// Abort breaks an answer that was started and cannot be finished, so that
	// the caller cannot take it for complete. Before Start it does nothing.
	Abort(err error)
}

// Form is how an upstream wrote the head of an answer, beyond what it says.
type Form struct {
	Reason string   // the reason phrase, may be empty
	Order  []string // field names as written, one for each line, those that are not passed on included
	Ready  bool     // bytes of the body have come with the head
}

// Verbatim is a [Responder] that can repeat the form of an HTTP/1.1 head.
type Verbatim interface {
	Responder
	Holding
	// Like says what the head looked like. It comes right before Start.
	Like(form Form)
}

// Holding is a [Responder] that may hold a head back for bytes of the body.
type Holding interface {
	// Hurry says that the upstream is waited for: a head that was held back goes out. It may
	// come from another goroutine than the rest, but not beside it.
	Hurry()
}

// Bare is a [Responder] that wants to know, before Start, that nothing follows
// the head, neither body nor trailers. On HTTP/2 the head then ends the answer:
// gRPC tells one that was refused at once from one that lost its trailers by it.
type Bare interface {
	NoBody()
}
