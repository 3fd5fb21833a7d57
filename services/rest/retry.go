package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Bounds of what is sent again.
const (
	firstPause   = 500 * time.Millisecond // doubled each time the server does not say how long
	longestPause = time.Minute            // a server that wants more gets its answer passed on
	mostDropped  = 1 << 20                // bytes of an answer that is not passed on
)

// retryOf returns when the call is sent again, nil for never: a caller's own
// request is sent as often as the caller sends it, and one that is not
// idempotent is never repeated, since the first may have had its effect.
func retryOf(call *runtime.Call) *runtime.Retry {
	a := call.Action
	own := call.Request.Raw == nil || call.Request.Followed
	if !own || !a.Idempotent || a.HTTP == nil || a.HTTP.Retry == nil || a.HTTP.Retry.Attempts < 2 {
		return nil
	}
	return a.HTTP.Retry
}

// repeatable reports whether the message may be sent a second time although the
// upstream may have acted on the first: only what has no body, a safe method (RFC
// 9110 sections 9.2.1 and 9.2.2), and, where a service describes it, an action that
// is idempotent and of low risk. A GET that does something is not.
func (x *exchange) repeatable() bool {
	if a := x.call.Action; a.Ref != runtime.ActionPass && (!a.Idempotent || a.Risk != runtime.RiskLow) {
		return false
	}
	switch x.message.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return x.message.body == nil
	}
	return false
}

// unsent marks the error of a write of which not one byte left: over TLS, not one
// record.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// noteUnsent marks the error of a first write that wrote n bytes.
func noteUnsent(n int, err error) error {
	if n == 0 && err != nil {
		return unsent{err}
	}
	return err
}

// once makes net/http send the request one time, unless it may be repeated or
// nothing of it has left. By itself it repeats what has a safe method, or an
// Idempotency-Key, when a kept connection ends without an answer; but not what has
// a body that it cannot rewind.
func (x *exchange) once(r *http.Request) {
	keyed := r.Header["Idempotency-Key"] != nil || r.Header["X-Idempotency-Key"] != nil
	switch {
	case x.repeatable(), !keyed && !safe(r.Method):
	case r.GetBody != nil:
		r.GetBody = nil
	case r.Body == nil || r.Body == http.NoBody:
		if x.message.empty || needsLength(r.Method) {
			r.Header = r.Header.Clone()
			r.Header["content-length"] = []string{"0"} // in a spelling that net/http writes as it is
		}
		r.Body, r.TransferEncoding = unread{}, []string{"identity"}
	}
}

func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// unread is a body of no bytes that does not say so.
type unread struct{}

// Read and Close implement [io.ReadCloser].
func (unread) Read([]byte) (int, error) { return 0, io.EOF }
func (unread) Close() error             { return nil }

// persist sends the call until an answer is not one of those that ask for
// patience, or no attempt is left. The last answer is passed on as it is.
func (b *Backend) persist(ctx context.Context, call *runtime.Call, again *runtime.Retry, out runtime.Responder) (total runtime.Result, err error) {
	lost := false     // an attempt reached the upstream and was not answered
	repeated := false // one may have taken effect, which is also what most answers leave open
	for attempt := 1; ; attempt++ {
		held := &patient{Responder: out, b: b, on: again.On, pause: min(firstPause<<(attempt-1), longestPause), last: attempt == again.Attempts}
		if deadline, ok := ctx.Deadline(); ok {
			held.before = deadline
		}
		result, err := b.once(ctx, call, held)
		result.BytesIn, result.BytesOut = result.BytesIn+total.BytesIn, result.BytesOut+total.BytesOut
		if result.Used == runtime.CredentialNone {
			result.Used = total.Used
		}
		if result.Address == "" && total.Address != "" { // an earlier attempt got farther
			result.Address, result.Private, result.Unsent = total.Address, total.Private, false
		}
		result.Repeated = repeated
		total = result
		unanswered := err != nil && !held.started && runtime.AsError(err).Reason == runtime.ReasonUpstreamUnavailable
		if lost && unanswered {
			err = begun(err)
		}
		if held.dropped && err == nil && ctx.Err() != nil { // nobody has got this answer
			return total, noTime(call, ctx.Err())
		}
		if held.last || !held.dropped && !unanswered || ctx.Err() != nil {
			return total, err
		}
		if unanswered && !held.before.IsZero() && b.o.Clock().Add(held.pause).After(held.before) {
			return total, err // there will be no time for another
		}
		lost = lost || unanswered && !errors.Is(err, runtime.ErrNotSent)
		repeated = lost || repeated || held.dropped && result.Status != http.StatusTooManyRequests
		if werr := b.o.Wait(ctx, held.pause); werr != nil {
			if unanswered {
				return total, err
			}
			return total, noTime(call, werr)
		}
		if call.Again != nil {
			if refused := call.Again(ctx); refused != nil {
				if lost {
					refused = begun(refused)
				}
				return total, refused
			}
		}
	}
}

// noTime is the end of a call whose answer asked for patience.
func noTime(call *runtime.Call, err error) error {
	if errors.Is(err, context.Canceled) {
		return &runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away before the answer was complete", Err: err}
	}
	return &runtime.Error{
		Code: runtime.CodeTimeout, Msg: hostOf(call.Action.HTTP.Authorities[0]) + " asked to try again later, and the time given was over before that",
		Hint: "give it more time, or try again later", Err: err,
	}
}

// begun is the end of a call after an earlier attempt of it had reached the upstream: it
// may have happened, whatever kept it from being sent again.
func begun(err error) error {
	if err == nil {
		return nil
	}
	why := runtime.AsError(err)
	return &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Stage: runtime.StageExecute,
		Msg:  "the request was sent, was not answered, and could not be sent again: " + why.Msg,
		Hint: "find out whether it was done before it is asked for once more", Err: errors.New(err.Error()),
	}
}

// Hurry implements [runtime.Holding].
func (p *patient) Hurry() {
	if h, ok := p.Responder.(runtime.Holding); ok {
		h.Hurry()
	}
}

// errEnough ends an answer that nobody gets.
var errEnough = errors.New("enough of an answer that is not passed on")

// patient is a responder that keeps an answer back when there will be another.
type patient struct {
	runtime.Responder
	b       *Backend
	on      []int
	pause   time.Duration // before the next attempt
	before  time.Time     // when it must be over; zero: no such time
	last    bool
	started bool // an answer is on its way to the caller
	dropped bool // this one is not
	size    int
}

// Start implements [runtime.Responder].
func (p *patient) Start(status int, header http.Header) error {
	if !p.last && slices.Contains(p.on, status) {
		now := p.b.o.Clock()
		if after, said := RetryAfter(header, now); said {
			p.pause = after
		}
		if p.pause <= longestPause && (p.before.IsZero() || now.Add(p.pause).Before(p.before)) {
			p.dropped = true
			return nil
		}
		p.last = true // waiting is no use: the caller gets this one
	}
	p.started = true
	return p.Responder.Start(status, header)
}

// Write implements [runtime.Responder].
func (p *patient) Write(data []byte) (int, error) {
	if !p.dropped {
		return p.Responder.Write(data)
	}
	if p.size += len(data); p.size > mostDropped {
		return 0, errEnough
	}
	return len(data), nil
}

// Trailer implements [runtime.Responder].
func (p *patient) Trailer(header http.Header) {
	if !p.dropped {
		p.Responder.Trailer(header)
	}
}

// longestAfter is the most that is taken from a Retry-After: twelve days.
const longestAfter = 1 << 20 * time.Second

// RetryAfter reads Retry-After (RFC 9110 section 10.2.3): seconds, or a date. It reports
// whether it is one of them, and is at most twelve days.
func RetryAfter(header http.Header, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return time.Duration(min(seconds, uint64(longestAfter/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, at.Sub(now)), longestAfter), true
	}
	return 0, false
}

// wait is Options.Wait when there is none.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
