package server

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/internal/object"
	"github.com/kimbap-run/kimbap/runtime"
)

// The fields of the interim answer (102) that says a person is waited for: of a call, and of
// a script. A request asks for one by the first.
const (
	fieldInterim   = "Kimbap-Interim"
	fieldApproval  = "Kimbap-Approval"
	fieldUntil     = "Kimbap-Approval-Until"
	fieldExecution = "Kimbap-Execution"
)

func (s *Server) services(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "limit", "cursor"); err != nil {
		return err
	}
	items, err := s.o.Agent.Services(r.Context(), a.who)
	return s.page(w, r, a, items, err)
}

func (s *Server) actions(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "limit", "cursor", "service"); err != nil {
		return err
	}
	items, err := s.o.Agent.Actions(r.Context(), a.who, r.URL.Query().Get("service"))
	return s.page(w, r, a, items, err)
}

func (s *Server) action(w http.ResponseWriter, r *http.Request, a visit) error {
	if isVerb(r) {
		return s.wrongMethod(w, r)
	}
	if err := onlyQuery(r); err != nil {
		return err
	}
	body, err := s.o.Agent.Action(r.Context(), a.who, serviceAction(r))
	return answerJSON(w, http.StatusOK, body, err)
}

func (s *Server) tools(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "name"); err != nil {
		return err
	}
	body, err := s.o.Agent.Tools(r.Context(), a.who, r.URL.Query().Get("name"))
	return answerJSON(w, http.StatusOK, body, err)
}

func (s *Server) search(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "query", "limit", "offset"); err != nil {
		return err
	}
	limit, err := count(r, "limit", 1, "write a number from 1 to 100")
	if err != nil {
		return err
	}
	offset, err := count(r, "offset", 0, "write the nextOffset of the answer before, or leave it out")
	if err != nil {
		return err
	}
	body, err := s.o.Agent.Search(r.Context(), a.who, r.URL.Query().Get("query"), limit, offset)
	return answerJSON(w, http.StatusOK, body, err)
}

func (s *Server) advice(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "name"); err != nil {
		return err
	}
	body, err := s.o.Agent.Advice(r.Context(), a.who, r.URL.Query().Get("name"))
	return answerJSON(w, http.StatusOK, body, err)
}

// callBody is the body of POST /v1/actions/…:execute.
type callBody struct {
	Input  runtime.Args `json:"input"`
	Wait   span         `json:"wait"`
	DryRun bool         `json:"dry_run"`
	All    bool         `json:"all"`
	Max    object.Whole `json:"max"`
	Raw    bool         `json:"raw"` // the answer's own bytes instead of {"result": …}
}

func (s *Server) execute(w http.ResponseWriter, r *http.Request, a visit) error {
	var body callBody
	data, err := read(w, r, &body)
	if err != nil {
		return err
	}
	return s.do(w, r, a, serviceAction(r), body, data)
}

// call is execute with the action's name in the body.
func (s *Server) call(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Action string `json:"action"`
		callBody
	}
	data, err := read(w, r, &body)
	if err != nil {
		return err
	}
	return s.do(w, r, a, body.Action, body.callBody, data)
}

func (s *Server) do(w http.ResponseWriter, r *http.Request, a visit, action string, body callBody, data []byte) error {
	wait, err := body.Wait.wait()
	if err != nil {
		return err
	}
	if body.Max < 0 {
		return invalid("leave max out, or ask for at least one", "max is negative")
	}
	unhurried(w)
	c := Call{
		ID: a.id, Caller: a.caller, Action: action, Input: body.Input, Hold: wait,
		Preview: body.DryRun, All: body.All, Max: int(min(body.Max, math.MaxInt32)),
	}
	if c.Input == nil {
		c.Input = runtime.Args{}
	}
	return s.once.do(w, r, a, data, func(w http.ResponseWriter, r *http.Request) error {
		if wait > 0 {
			c.Pending = waits(w, r)
		}
		room, err := s.large.allow(a.who)
		if err != nil {
			return err
		}
		defer room.give()
		c.Room = func() error { return room.take(r.Context()) }
		result, err := s.o.Agent.Call(r.Context(), c)
		if err == nil {
			err = room.holds(r.Context(), len(result.Body))
		}
		return answerResult(w, result, body.Raw, err)
	})
}

// takesInterim reports whether a caller can tell an interim answer from the answer. HTTP/1.1
// demands it of everybody (RFC 9110 section 15.2), and Python's http.client, with all that is
// built on it, takes 102 for the answer, and the answer for that of its next request. So only
// who asks for it gets one, and never HTTP/1.0, as nginx speaks to what it stands before.
func takesInterim(r *http.Request) bool {
	return r.ProtoAtLeast(1, 1) && r.Header.Get(fieldInterim) == "1"
}

// waits tells a caller that waits what it waits for: 102 (RFC 2518 section 10.1).
func waits(w http.ResponseWriter, r *http.Request) func(string, time.Time) {
	return func(id string, until time.Time) {
		if !takesInterim(r) {
			return
		}
		h := w.Header()
		h.Set(fieldApproval, id)
		h.Set(fieldUntil, until.UTC().Format(time.RFC3339))
		w.WriteHeader(http.StatusProcessing)
		h.Del(fieldApproval)
		h.Del(fieldUntil)
	}
}

// pauses is waits for who has sent a script.
func pauses(w http.ResponseWriter, r *http.Request) func(string) {
	return func(id string) {
		if !takesInterim(r) {
			return
		}
		h := w.Header()
		h.Set(fieldExecution, id)
		w.WriteHeader(http.StatusProcessing)
		h.Del(fieldExecution)
	}
}

func (s *Server) approvals(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "limit", "cursor", "all"); err != nil {
		return err
	}
	all, err := flag(r, "all")
	if err != nil {
		return err
	}
	items, err := s.o.Agent.Approvals(r.Context(), a.who, all)
	return s.page(w, r, a, items, err)
}

func (s *Server) approval(w http.ResponseWriter, r *http.Request, a visit) error {
	if isVerb(r) {
		return s.wrongMethod(w, r)
	}
	if err := onlyQuery(r, "full"); err != nil {
		return err
	}
	full, err := flag(r, "full")
	if err != nil {
		return err
	}
	body, err := s.o.Agent.Approval(r.Context(), a.who, chi.URLParam(r, "id"), full)
	return answerJSON(w, http.StatusOK, body, err)
}

// collect gives the requester of an approval its result.
func (s *Server) collect(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Wait span `json:"wait"`
		Raw  bool `json:"raw"`
	}
	if err := readAny(w, r, &body); err != nil {
		return err
	}
	wait, err := body.Wait.wait()
	if err != nil {
		return err
	}
	unhurried(w)
	id := chi.URLParam(r, "id")
	if wait == 0 { // an operator hears of a question of others that it is open, and not that there is none
		state, err := s.o.Agent.Approval(r.Context(), a.who, id, false)
		if err != nil {
			return err
		}
		if p, ok := state.(interface{ Pending() bool }); ok && p.Pending() {
			return &runtime.Error{
				Code: runtime.CodeApprovalPending, ApprovalID: id, ResultURL: "/v1/approvals/" + id,
				Msg: "a person has not decided yet", Hint: "ask again, or with {\"wait\": \"1m\"}",
			}
		}
	}
	room, err := s.large.allow(a.who)
	if err != nil {
		return err
	}
	defer room.give()
	result, err := s.o.Agent.Collect(r.Context(), a.id, a.caller, id, wait, func() error { return room.take(r.Context()) })
	if err == nil {
		err = room.holds(r.Context(), len(result.Body))
	}
	return answerResult(w, result, body.Raw, err)
}

// count reads a number of the query that is at least so much; 0: it is not there.
func count(r *http.Request, name string, least int, fix string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		return 0, invalid(fix, name+" is not one")
	}
	return n, nil
}

// flag reads a yes or no of the query.
func flag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, invalid("write true or false", name+" is neither yes nor no")
	}
	return value, nil
}
