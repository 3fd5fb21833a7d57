package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/runtime"
)

// handle makes of a func that returns an error one that answers with it. A panic
// is one, and the process lives.
func (s *Server) handle(f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if broken := recover(); broken != nil {
				s.o.Log.Error().Interface("panic", broken).Msg("a request failed")
				s.problem(w, r, errPanic{})
			}
		}()
		if err := f(w, r); err != nil {
			s.problem(w, r, err)
		}
	}
}

type errPanic struct{}

func (errPanic) Error() string { return "panic" }

// command is the User-Agent of the command kimbap, with --server and in a run too. Nothing but
// the words of a refusal go by it.
const command = "kimbap"

// problem answers with an error. Unlike on the proxy, who cannot be identified
// gets 401, and what does not exist 404.
func (s *Server) problem(w http.ResponseWriter, r *http.Request, err error) {
	e := runtime.AsError(err)
	p := problem{Problem: e.Problem()}
	if u := (*Upstream)(nil); errors.As(err, &u) {
		p.Upstream = u.Said
	}
	if s.o.Cause && e.Err != nil {
		p.Cause = e.Err.Error()
	}
	if s.o.Cause || r.UserAgent() == command { // the command itself asks: its user has flags, or is an MCP client behind it
		p.Ask = e.Ask
	} else {
		p.Hint = cmp.Or(e.Ask, p.Hint)
	}
	p.Status = statusOf(e)
	if p.RequestID == "" && !s.o.Cause {
		p.RequestID = w.Header().Get(requestID)
	}
	if e.Code == runtime.CodeUnauthenticated {
		p.Hint = "send Authorization: Bearer TOKEN; the owner makes one with: kimbap token create --agent NAME --scope GLOB"
		w.Header().Set("WWW-Authenticate", `Bearer realm="kimbap"`)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	body, err := json.Marshal(p)
	if err != nil { // cannot be: strings and numbers
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", runtime.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// logEnd is the line of a request that was refused or went wrong, at its end. A fault of our
// own is an error in the log too: its caller is told to look there. What an upstream says is
// its caller's to read, and in no log.
func (s *Server) logEnd(r *http.Request, a visit, err error) {
	if err == nil {
		return
	}
	e := runtime.AsError(err)
	status, line := statusOf(e), s.o.Log.Info()
	if status >= http.StatusInternalServerError && !others(e.Code) {
		line = s.o.Log.Error()
	}
	line = line.Str("code", string(e.Code)).Str("reason", string(e.Reason))
	if e.UpstreamStatus != 0 {
		line = line.Int("upstream_status", e.UpstreamStatus)
	} else {
		line = line.AnErr("error", e.Err)
	}
	line.Str("request_id", cmp.Or(e.RequestID, a.id)).Str("tenant", string(a.who.Tenant)).Str("action", string(e.Action)).
		Str("method", r.Method).Str("page", chi.RouteContext(r.Context()).RoutePattern()).Int("status", status).Msg("request")
}

// others reports whether an error is somebody else's, although its status is a server's.
func others(code runtime.Code) bool {
	return code == runtime.CodeUpstream || code == runtime.CodeUpstreamTLS || code == runtime.CodeTimeout
}

// problem is a refusal, and what an upstream said of it.
type problem struct {
	runtime.Problem
	Upstream string `json:"upstream,omitempty"`
	Cause    string `json:"cause,omitempty"` // with Options.Cause
	Ask      string `json:"ask,omitempty"`   // to the command, in whose hint there are flags: the hint of who has none
}

// StatusOf is the status of an answer that is an error.
func StatusOf(err error) int { return statusOf(runtime.AsError(err)) }

func statusOf(e *runtime.Error) int {
	switch {
	case e.Code == runtime.CodeUnauthenticated:
		return http.StatusUnauthorized
	case e.Reason == runtime.ReasonNotFound, e.Code == runtime.CodeUnknownAction:
		return http.StatusNotFound
	}
	return e.Status()
}

func invalid(fix, msg string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: msg, Hint: fix}
}

func (s *Server) noPage() error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no such page", Hint: s.pages}
}

// isVerb reports whether a path ends in what is to be done, ":execute" or ":accept": that is
// a POST, though what is read at a GET would match it. No action's name and no id has a colon.
func isVerb(r *http.Request) bool {
	return strings.Contains(path.Base(r.URL.Path), ":")
}

// wrongMethod says which methods there are (RFC 9110 section 15.5.6). Of a path that takes none
// there is no page: the router asks for a word that is no method before it looks for one.
func (s *Server) wrongMethod(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if method == http.MethodGet && isVerb(r) {
			continue
		}
		if s.router.Match(chi.NewRouteContext(), method, r.URL.Path) {
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
		}
	}
	if len(allowed) == 0 {
		return s.noPage()
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonMethodNotAllowed, Msg: "this page takes another method", Hint: s.pages}
}
