package runtime

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Surface is the entrance a request came in by.
type Surface string

// The entrances. Their words stand in the trail and in policies.
const (
	SurfaceProxy Surface = "proxy" // an HTTP client's own request
	SurfaceCall  Surface = "call"  // kimbap call, through the daemon too
	SurfaceExec  Surface = "exec"  // a call that a script makes
	SurfaceREST  Surface = "rest"  // the REST API
	SurfaceMCP   Surface = "mcp"   // a tool of the MCP server
)

// HoldAuto lets the approval stage choose how long to wait for a human.
const HoldAuto time.Duration = -1

// Request is what a surface hands to [Pipeline.Do]. The surface owns it and
// must not touch it until Do returns.
type Request struct {
	ID       string // set by Do when empty
	Surface  Surface
	Caller   Caller
	Action   Ref
	Args     Args     // typed, as read back from the request or given by the caller
	Query    Args     // query parameters that no mapping names, for policy and audit
	Astray   []string // arguments that stand where the service does not have them, so that no rule can look at them
	Others   []Other  // what else some server could take it for, so that rules look at that too
	Target   Target   // empty authority for built requests
	Raw      *Raw     // the caller's own HTTP request; nil: the backend builds one
	Received time.Time

	Execution string // the script that this is a call of; empty: none
	Step      int    // which of its calls, from 1
	Within    []Glob // the actions that it may use, beside the scopes; none: no further bound

	// Refusal is what the surface found wrong before any stage: an ambiguous
	// target, a misdirected host. Do identifies the caller, records and returns
	// it; nothing else runs.
	Refusal *Error

	// Read, when not nil, reads the body whole, parses it strictly and fills in
	// Document and what Args and Query have of it; then Parsed is true. Policy is
	// what asks for it. Its errors are *Error.
	Read     func() error
	Document any  // the parsed body: what JSON has, or a form's fields; nil for an empty one
	Parsed   bool // the body was read: Args and Document hold what it says
	Fields   bool // some servers read parameters out of its body beside those of the query

	// Waited says that services may have changed since the request was recognised: it was
	// held in the store, or is resolved again after a person's yes or to be repeated.
	Waited bool

	// Settled says that Args were completed before, and judged: no default is added for what
	// is not among them. Of a request that is to be built.
	Settled bool

	// Approval is the one that this request was held under, when it is collected by its id:
	// it is done by that yes alone and once, whatever the rules say by now. Empty: none.
	Approval string

	// Followed marks a request that kimbap itself made from the answer to a built
	// one: a next page, a redirect to the same origin. Raw is its form, and holds
	// nothing of a caller's.
	Followed bool

	// Tenant is set by Do: that of the caller, for what is said of the answer. No stage asks it.
	Tenant Tenant

	// Sent is set by Do before it returns: something of the request may have reached an
	// upstream. False says for certain that nothing has.
	Sent bool

	// Repeated is set by Do as Sent is: what answers the request says nothing of an attempt
	// before it, which may have taken effect.
	Repeated bool

	Unattended bool                                     // nobody can be asked: approval means refusal
	Hold       time.Duration                            // how long to wait for a human, or HoldAuto
	OnPending  func(approvalID string, until time.Time) // told when a human must decide; may be nil
	Results    func(approvalID string) string           // the URL where the caller sees how an approval stands; may be nil
}

// Target is where a request wants to go, in canonical form.
type Target struct {
	Scheme    string // "http", "https"; "tcp" for raw tunnels
	Authority string // host:port, lower case, A-labels, port always there
	Method    string
	Path      string // raw path and query, exactly as the caller wrote them
}

// Raw is the caller's own HTTP request: its head as parsed and its body as a
// stream. Bytes of the body are sent as they are judged.
type Raw struct {
	Proto         string
	Header        http.Header
	ContentLength int64              // -1: unknown
	Body          io.Reader          // nil: none; with a method Halt(), that ends a Read which waits for the caller
	Trailer       func() http.Header // after the body's end; nil: none
	Announced     []string           // trailer names the caller announced
	Order         []string           // field names as the caller wrote them, one for each line; nil: not known
	Before        int                // requests that came before it on its HTTP/1.1 connection

	// Room, when not nil, is asked before the body is read whole, for as many
	// bytes as it may have, and once more for as many as it had. It waits, or
	// refuses with an *Error.
	Room    func(n int64) error
	Changed []Change // what the surface has already changed
	Head    []byte   // as it came, with the last empty line; nil: not kept (it is for the check of changes)

	buffered []byte
	whole    bool
}

// ErrBodyTooLarge is returned by [Raw.Buffer] when the body exceeds the limit.
var ErrBodyTooLarge = errors.New("body too large")

// Buffer reads the whole body, at most limit bytes, and puts the same bytes
// back in its place. Called again it returns what it read before. The caller
// must not change the bytes. Its errors are [ErrBodyTooLarge], *Error with
// CodeCanceled or CodeTimeout for a body that did not end, and those of Room.
func (r *Raw) Buffer(limit int64) ([]byte, error) {
	if !r.whole && r.Body != nil && r.ContentLength > limit {
		return nil, ErrBodyTooLarge
	}
	body, err := r.Front(limit)
	if err == nil && !r.whole && r.Body != nil {
		return nil, ErrBodyTooLarge
	}
	return body, err
}

// Front is Buffer for a body that may go on behind the limit: of such a one it
// returns the first bytes, at least limit of them, and Buffered says that it is
// not whole. What Room has given stays taken for them.
func (r *Raw) Front(limit int64) ([]byte, error) {
	if r.whole || r.Body == nil {
		return r.buffered, nil
	}
	size := r.ContentLength
	if size < 0 || size > limit {
		size = limit // not announced: it may become that long
	}
	if r.Room != nil {
		if err := r.Room(size); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	var refused *Error
	switch {
	case errors.As(err, &refused): // by whatever looks at it as it passes
		return nil, refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Error{Code: CodeTimeout, Msg: "the request body did not arrive in time", Hint: "send it again, faster", Err: err}
	case err != nil:
		return nil, &Error{Code: CodeCanceled, Msg: "the request body ended early", Err: err}
	case int64(len(body)) > limit:
		r.Body = io.MultiReader(bytes.NewReader(body), r.Body)
		return body, nil
	}
	if r.Room != nil {
		if err := r.Room(int64(len(body))); err != nil {
			return nil, err
		}
	}
	r.buffered, r.whole = body, true
	r.Body = bytes.NewReader(body)
	return body, nil
}

// Buffered returns the body if it was read whole.
func (r *Raw) Buffered() ([]byte, bool) { return r.buffered, r.whole || r.Body == nil }

// BodyMode says for the record how much of the body was judged.
func (r *Request) BodyMode() string {
	switch {
	case r.Raw == nil:
		return "built"
	case r.Raw.Body == nil:
		return "none"
	case r.Raw.whole:
		return "read"
	default:
		return "streamed"
	}
}
