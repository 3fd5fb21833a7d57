package runtime

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is the body of a refusal, application/problem+json (RFC 9457), with
// the extension members that tell an agent and its human what to do.
type Problem struct {
	Type       string `json:"type"`
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Detail     string `json:"detail"`
	Code       Code   `json:"code"`
	Reason     Reason `json:"reason,omitempty"`
	Action     Ref    `json:"action,omitempty"`
	Rule       string `json:"rule,omitempty"`
	RequestID  string `json:"request_id,omitempty"`
	ApprovalID string `json:"approval_id,omitempty"`
	ResultURL  string `json:"result_url,omitempty"`
	Hint       string `json:"hint,omitempty"`

	UpstreamStatus int `json:"upstream_status,omitempty"`
}

// ProblemType is the media type of a [Problem].
const ProblemType = "application/problem+json"

// Problem renders the error for a caller: Msg and Hint, never Err.
func (e *Error) Problem() Problem {
	return Problem{
		Type:   "https://kimbap.run/errors#" + string(e.Code),
		Title:  strings.ReplaceAll(string(e.Code), "_", " "),
		Status: e.Status(), Detail: e.Msg, Code: e.Code, Reason: e.Reason,
		Action: e.Action, Rule: e.Rule, RequestID: e.RequestID,
		ApprovalID: e.ApprovalID, ResultURL: e.ResultURL, Hint: e.Hint, UpstreamStatus: e.UpstreamStatus,
	}
}

// told is a [Problem] for the clients of other APIs. They look for an error where their own
// API has it, which is nearly always one of these two places. A client that finds none
// throws one that says nothing, or takes the refusal for the answer that it asked for: that
// of Stripe for Node goes by the member error alone, whatever the status.
type told struct {
	Problem
	Message string `json:"message"`
	Error   any    `json:"error"` // a toldError, or what the asker's API has there
	Errors  []any  `json:"errors,omitempty"`
	*telegramError
}

type toldError struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Said is detail and hint in one text, which says who refuses: it is shown as the
// service's own word otherwise.
func (p *Problem) Said() string {
	text := "kimbap: " + p.Detail
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// WriteProblem answers w with the error: status, Kimbap-Error header with the
// same text for clients that hide the body, Retry-After where it is known.
func WriteProblem(w http.ResponseWriter, e *Error, asker Asker) {
	if e.Code == CodeUnauthenticated {
		w.Header().Set("Proxy-Authenticate", `Basic realm="kimbap"`)
	}
	writeProblem(w, e.Problem(), e.RetryAfter, asker)
}

// WriteOwnProblem is WriteProblem for a page of kimbap's own. There it is the origin
// server, and 407 would be a proxy's word: who shows no valid token is told 401, and in
// which field one is read (RFC 9110 section 11.6.1).
func WriteOwnProblem(w http.ResponseWriter, e *Error) {
	p := e.Problem()
	if e.Code == CodeUnauthenticated {
		w.Header()["Www-Authenticate"] = []string{`Basic realm="kimbap"`, `Bearer realm="kimbap"`}
		p.Status, p.Hint = http.StatusUnauthorized, "ask for this page without a proxy and show the token of who made the request: Authorization: Bearer TOKEN"
	}
	writeProblem(w, p, e.RetryAfter, Asker{})
}

func writeProblem(w http.ResponseWriter, p Problem, again time.Duration, asker Asker) {
	said := p.Said()
	form := told{Problem: p, Message: said, Error: toldError{Code: p.Code, Message: said}}
	body, err := asker.body(form)
	if err != nil { // cannot be: it holds strings and numbers
		body = []byte("{}")
	}
	h := w.Header()
	h.Set("Content-Type", asker.kind())
	h.Set("Cache-Control", "no-store")
	h.Set("Kimbap-Error", headerText(string(p.Code)+": "+p.Detail))
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	if again > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(again.Seconds()))))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// headerText makes text fit a field value (RFC 9110 section 5.5): printable
// ASCII, at most 512 bytes.
func headerText(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), 512)])
}

// Well is what a health check says when all is well, with a notice for who looks; a nil
// one has none.
func Well(notice func() string) string {
	if notice != nil {
		if said := notice(); said != "" {
			return "ok\n" + said + "\n"
		}
	}
	return "ok\n"
}

// Unwell is what a health check says of err: an [Error] in its own words, with what
// to do, anything else without, since it may quote a file.
func Unwell(err error) string {
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return "not well"
	}
	said := "not well: " + string(e.Code) + ": " + e.Msg
	if e.Hint != "" {
		said += " (" + e.Hint + ")"
	}
	return said
}
