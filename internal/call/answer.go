package call

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/jq"
	"github.com/kimbap-run/kimbap/services/request"
	"github.com/kimbap-run/kimbap/services/rest"
)

// maxAnswer bounds an answer that is kept in memory, in bytes.
const maxAnswer = 64 << 20

// Answer is what an action answered, whole. It is a Responder for the surfaces
// that give results rather than streams.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Limit  int          // bytes of the body; 0: 64 MiB
	Room   func() error // asked before more than Free of it is kept, again and again; nil: it may be
	Free   int          // bytes

	RequestID string         // of the request that it answers; "" where nobody says
	Tenant    runtime.Tenant // of who asked; "" where nobody says

	behind bool // it is of what a request that was done, and does more than read, redirects to
}

// Of notes which request it answers, and whose, as Do has set it.
func (a *Answer) Of(req *runtime.Request) { a.RequestID, a.Tenant = req.ID, req.Tenant }

// Informational drops 1xx answers: nobody waits for them here.
func (a *Answer) Informational(int, http.Header) error { return nil }

// Start keeps status and header.
func (a *Answer) Start(status int, header http.Header) error {
	a.Status, a.Header = status, header.Clone()
	return nil
}

// Write keeps the body, up to the limit.
func (a *Answer) Write(p []byte) (int, error) {
	if len(a.Body)+len(p) > a.limit() {
		return 0, a.tooLarge()
	}
	if a.Room != nil && len(a.Body)+len(p) > a.Free {
		if err := a.Room(); err != nil {
			return 0, err
		}
	}
	a.Body = append(a.Body, p...)
	return len(p), nil
}

func (a *Answer) limit() int { return cmp.Or(a.Limit, maxAnswer) }

func (a *Answer) tooLarge() error {
	e := &runtime.Error{
		Code: runtime.CodeUpstream, Reason: runtime.ReasonBodyTooLarge, Stage: runtime.StageExecute, RequestID: a.RequestID,
		Msg: fmt.Sprintf("the answer is over %d MiB", a.limit()>>20), Hint: "fetch it with a client through: kimbap run -- curl …",
	}
	if a.Limit > 0 {
		e.Hint = "ask for less: a page, or fewer fields"
	}
	return a.done(e)
}

// done says in the error of an answer that cannot be kept that the request was done, where the
// status does: who asks again has it done again.
func (a *Answer) done(e *runtime.Error) *runtime.Error {
	if a.Status/100 == 2 {
		e.Hint = "it was done: do not send it again for that; where it only reads, " + e.Hint
	}
	return e
}

// Decode takes the body's content coding off, once it is whole: whoever wants a
// result reads it, and wants none of what an upstream compresses unasked.
func (a *Answer) Decode() error {
	limit := a.limit()
	if a.Room != nil {
		limit = min(limit, a.Free)
	}
	body, err := rest.Decoded(a.Header, a.Body, limit)
	if limit < a.limit() && errors.Is(err, runtime.ErrBodyTooLarge) { // a little of gzip can be a lot
		if err = a.Room(); err == nil {
			body, err = rest.Decoded(a.Header, a.Body, a.limit())
		}
	}
	if errors.Is(err, runtime.ErrBodyTooLarge) {
		return a.tooLarge()
	}
	if err != nil {
		e := *runtime.AsError(err)
		return a.done(&e)
	}
	a.Body = body
	return nil
}

// Trailer drops trailers.
func (a *Answer) Trailer(http.Header) {}

// Upgrade refuses: a result has no connection to hand over.
func (a *Answer) Upgrade() (net.Conn, error) { return nil, http.ErrNotSupported }

// Abort forgets a body that is not complete.
func (a *Answer) Abort(error) { a.Body = nil }

// Filters reports whether [Actions.Filter] makes something else of the answer, and so what it gives
// is text of ours and not the service's own bytes.
func Filters(action *runtime.Action, body []byte) bool {
	switch {
	case action.HTTP != nil:
		return action.HTTP.Filter != ""
	case action.Command != nil:
		return action.Command.Filter != "" || action.Command.TextFilter != "" && !json.Valid(body)
	}
	return false
}

// Filter applies the action's own response filter to a successful answer. Where that
// does not fit, the error is no longer about what the caller asked for: it was done.
func (a Actions) Filter(action *runtime.Action, body []byte) ([]byte, error) {
	filter := ""
	switch {
	case action.HTTP != nil:
		filter = action.HTTP.Filter
	case action.Command != nil:
		filter = action.Command.Filter
		if text := action.Command.TextFilter; text != "" && !json.Valid(body) {
			quoted, err := json.Marshal(string(body))
			if err != nil {
				return nil, err
			}
			if body, err = a.jq(text, quoted); err != nil {
				return nil, unfit(action, "text_filter", err)
			}
		}
	}
	if filter == "" {
		return body, nil
	}
	out, err := a.jq(filter, body)
	if err != nil {
		return nil, unfit(action, "filter", err)
	}
	return out, nil
}

// jq runs an expression over data, in the process that the Actions have for it.
func (a Actions) jq(expression string, data []byte) ([]byte, error) {
	if a.JQ == nil {
		return jq.Filter(expression, data)
	}
	return a.JQ(expression, data)
}

func unfit(action *runtime.Action, field string, err error) error {
	if errors.Is(err, jq.ErrNoRoom) { // the filter is not wrong for that
		return &runtime.Error{
			Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Action: action.Ref, Err: err,
			Msg:  fmt.Sprintf("%s was done, and there was no room in memory for the %s of its answer", action.Ref, field),
			Hint: "do not send it again for that; where it only reads, ask for less, or again when less runs",
		}
	}
	if e := *runtime.AsError(err); e.Code != runtime.CodeInvalidInput { // nor for that
		e.Stage, e.Action = runtime.StageExecute, action.Ref
		e.Msg, e.Hint = fmt.Sprintf("%s was done, and the %s of its answer was not applied: %s", action.Ref, field, e.Msg), "do not send it again for that"
		return &e
	}
	return &runtime.Error{
		Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Action: action.Ref,
		Msg:  fmt.Sprintf("%s was done, and its answer does not fit the %s of its service file: %s", action.Ref, field, runtime.AsError(err).Msg),
		Hint: fmt.Sprintf("do not send it again for that; correct response.%s of %s", field, action.Ref),
	}
}

// UpstreamError says what a status of 400 and above means, in the words of the
// service file where it has some.
func (a Actions) UpstreamError(action *runtime.Action, args runtime.Args, answer *Answer) error {
	if answer.Status < 400 {
		return nil
	}
	e := &runtime.Error{
		Code: runtime.CodeUpstream, Stage: runtime.StageExecute, Action: action.Ref, RequestID: answer.RequestID,
		Msg: fmt.Sprintf("%s answered %s", action.Service, runtime.StatusText(answer.Status)), UpstreamStatus: answer.Status,
	}
	if answer.behind { // the file's words are of the action, and whoever waits and tries again does that twice
		return unread(action, e)
	}
	if action.HTTP != nil {
		if m, ok := action.HTTP.Errors[answer.Status]; ok {
			mapped(e, m, args)
		}
	}
	if answer.Status == http.StatusTooManyRequests {
		e.Code = runtime.CodeRateLimited
	}
	switch {
	case answer.Status == http.StatusUnauthorized:
		e.Hint = runtime.Command(answer.Tenant, "link "+action.Service)
	case e.Code == runtime.CodeRateLimited:
		a.later(e, answer.Header)
	}
	return e
}

// later says in an error when to try again, as the service said it.
func (a Actions) later(e *runtime.Error, header http.Header) {
	after, said := rest.RetryAfter(header, a.Clock())
	if e.Hint = "wait, then try again"; !said {
		return
	}
	e.RetryAfter, e.Hint = after, "try again in "+runtime.Count(int64(after/time.Second), "second")
	if date, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		e.Hint = "try again after " + date.UTC().Format(time.RFC3339)
	}
}

// Told adds to an error what the service said of it, for the person who called:
// its own words, made safe for a terminal.
func Told(err error, answer *Answer) error {
	e := *runtime.AsError(err)
	text := strings.TrimSpace(string(answer.Body))
	if text == "" {
		return &e
	}
	text = printable(strings.ReplaceAll(text[:min(len(text), 2000)], "\r\n", "\n"))
	if e.Err != nil {
		text = e.Err.Error() + "\n" + text
	}
	e.Err = errors.New(text)
	return &e
}

// printable replaces control and format characters, so that text from outside
// cannot draw on a terminal; its lines and tabs stay.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// mapped says in the service file's words what a status or an exit code means.
// The code rate_limited is ours too; any other is shown.
func mapped(e *runtime.Error, m runtime.ErrorMapping, args runtime.Args) {
	e.Msg = request.Expand(m.Message, args)
	if e.Err = errors.New(m.Code); m.Code == string(runtime.CodeRateLimited) {
		e.Code = runtime.CodeRateLimited
	}
}
