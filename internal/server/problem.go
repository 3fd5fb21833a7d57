package server

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// handle makes of a func that returns an error one that answers with it. A panic
// is one, and the process lives.
func (s *Server) handle(f func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if broken := recover(); broken != nil {
				s.o.Log.Error().Interface("panic", broken).Msg("a request failed")
				s.problem(w, errPanic{})
			}
		}()
		if err := f(w, r); err != nil {
			s.problem(w, err)
		}
	}
}

type errPanic struct{}

func (errPanic) Error() string { return "panic" }

// problem answers with an error. Unlike on the proxy, who cannot be identified
// gets 401, and what does not exist 404.
func (s *Server) problem(w http.ResponseWriter, err error) {
	e := runtime.AsError(err)
	p := problem{Problem: e.Problem()}
	if u := (*Upstream)(nil); errors.As(err, &u) {
		p.Upstream = u.Said
	}
	if s.o.Cause && e.Err != nil {
		p.Cause = e.Err.Error()
	}
	p.Status = statusOf(e)
	if p.RequestID == "" {
		p.RequestID = w.Header().Get(requestID)
	}
	if e.Code == runtime.CodeUnauthenticated {
		p.Hint = "send Authorization: Bearer TOKEN; the owner makes one with: kimbap token create --agent NAME --scope GLOB"
		w.Header().Set("WWW-Authenticate", `Bearer realm="kimbap"`)
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	if p.Status >= http.StatusInternalServerError && e.Err != nil {
		s.o.Log.Error().Err(e.Err).Str("code", string(e.Code)).Msg("a request failed")
	}
	body, err := json.Marshal(p)
	if err != nil { // cannot be: strings and a number
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", runtime.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

// problem is a refusal, and what an upstream said of it.
type problem struct {
	runtime.Problem
	Upstream string `json:"upstream,omitempty"`
	Cause    string `json:"cause,omitempty"` // with Options.Cause
}

func statusOf(e *runtime.Error) int {
	switch {
	case e.Code == runtime.CodeUnauthenticated:
		return http.StatusUnauthorized
	case e.Reason == runtime.ReasonNotFound, e.Code == runtime.CodeUnknownAction:
		return http.StatusNotFound
	}
	return e.Status()
}

func invalid(fix string, parts ...string) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: strings.Join(parts, " "), Hint: fix}
}

func noPage() error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no such page", Hint: "see /v1/openapi.json"}
}

func wrongMethod() error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonMethodNotAllowed, Msg: "this page takes another method", Hint: "see /v1/openapi.json"}
}
