package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/internal/object"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxWait is the longest that a request may wait for a person.
const maxWait = time.Hour

// execBody is the body of POST /v1/exec.
type execBody struct {
	Code      string       `json:"code"`
	TimeoutMs object.Whole `json:"timeoutMs"`
	Wait      span         `json:"wait"`
	Allow     []string     `json:"allow"`
}

// span is a time as callers write it: seconds, or text with a unit.
type span time.Duration

// UnmarshalJSON implements [json.Unmarshaler].
func (d *span) UnmarshalJSON(data []byte) error {
	var text string
	var seconds float64
	if json.Unmarshal(data, &text) == nil {
		parsed, err := runtime.ParseSpan(text)
		*d = span(parsed)
		return err
	}
	if err := json.Unmarshal(data, &seconds); err != nil {
		return err
	}
	*d = span(min(max(seconds, -longestSpan), longestSpan) * float64(time.Second))
	return nil
}

// Takes implements [object.Kind].
func (*span) Takes() string { return `seconds, or text such as "30s"` }

// longestSpan is more than any time may be that somebody asks for, in seconds, and less than
// what a [time.Duration] holds.
const longestSpan = 1 << 33

func (s *Server) exec(w http.ResponseWriter, r *http.Request, a visit) error {
	var body execBody
	data, err := read(w, r, &body)
	if err != nil {
		return err
	}
	wait, err := body.Wait.wait()
	if err != nil {
		return err
	}
	if body.Code == "" || body.TimeoutMs < 0 {
		return invalid(`send {"code": "return 1"}; timeoutMs and wait are optional`, "there is no script in the request, or its timeoutMs is negative")
	}
	if body.Allow != nil && len(body.Allow) == 0 {
		return invalid(`name what it may use, or leave it out for all that the caller may: {"allow": ["github.list-*"]}`, "allow is empty")
	}
	unhurried(w)
	script := Script{
		Code: body.Code, Timeout: time.Duration(min(int64(body.TimeoutMs), maxWait.Milliseconds())) * time.Millisecond,
		Wait: wait, Allow: body.Allow, Caller: a.caller,
	}
	return s.once.do(w, r, a, data, func(w http.ResponseWriter, r *http.Request) error {
		script.Waits = pauses(w, r)
		return s.told(w, r, a, func(ctx context.Context) (Answer, error) { return s.o.Execute(ctx, script) })
	})
}

func (s *Server) status(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	return s.told(w, r, a, func(ctx context.Context) (Answer, error) { return s.o.Status(ctx, a.caller, chi.URLParam(r, "id")) })
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Wait span `json:"wait"`
	}
	if err := readAny(w, r, &body); err != nil {
		return err
	}
	wait, err := body.Wait.wait()
	if err != nil {
		return err
	}
	unhurried(w)
	return s.told(w, r, a, func(ctx context.Context) (Answer, error) {
		return s.o.Resume(ctx, a.caller, chi.URLParam(r, "id"), wait)
	})
}

func (d span) wait() (time.Duration, error) {
	if d < 0 || time.Duration(d) > maxWait {
		return 0, invalid("write seconds, or text such as \"30s\"", "wait is negative or longer than an hour")
	}
	return time.Duration(d), nil
}

// readAny is read where a body may be left out.
func readAny(w http.ResponseWriter, r *http.Request, into any) error {
	if r.ContentLength == 0 {
		return onlyQuery(r)
	}
	_, err := read(w, r, into)
	return err
}

// read reads one strict JSON object, and returns its bytes too. What has a body has no query.
func read(w http.ResponseWriter, r *http.Request, into any) ([]byte, error) {
	if err := onlyQuery(r); err != nil {
		return nil, err
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/json" { // the usual case needs no parser
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return nil, notMedia("application/json")
		}
	}
	data, err := whole(w, r)
	if err != nil {
		return nil, unread(r, err)
	}
	return data, words.Read(data, into)
}

// words are those of what is wrong with a body.
var words = object.Words{Not: "the request is not understood", None: "there is no body", See: "see /v1/openapi.json"}

// atOnce is how long a body may be for which room is made before it has come, in bytes.
const atOnce = 16 << 10

// whole is the body of a request.
func whole(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n >= 0 && n <= atOnce { // room for more only as it comes
		data := make([]byte, n)
		_, err := io.ReadFull(r.Body, data)
		return data, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

// untold is why what an execution answered is not told now. It is kept, so the one thing
// that its caller needs is its name.
func untold(id string, err error) error {
	if id == "" || runtime.CodeOf(err) != runtime.CodeUpstream {
		return err
	}
	e := *runtime.AsError(err)
	e.Msg = fmt.Sprintf("what there is to tell of the execution %s is kept, and is over %d MiB, of which there is as much as there may be at once", id, Large>>20)
	e.Hint = "do not send the script again; read answers first, then " + askFor(id)
	return &e
}

// askFor is how what is kept of an execution is read.
func askFor(id string) string {
	return fmt.Sprintf("ask GET /v1/exec/%s, or kimbap exec --resume %s", id, id)
}

// told answers with how an execution stands. What it says of one may be large, and waits
// for room like every large answer.
func (s *Server) told(w http.ResponseWriter, r *http.Request, a visit, f func(ctx context.Context) (Answer, error)) error {
	room, err := s.large.allow(a.who)
	if err != nil {
		return err
	}
	defer room.give()
	answer, err := f(r.Context())
	if err != nil {
		return err
	}
	about(w, answer.ID)
	text, err := encoded(answer.Body)
	if err != nil {
		return err
	}
	if err := room.holds(r.Context(), len(text)); err != nil {
		return untold(answer.ID, err)
	}
	status := http.StatusOK
	if answer.Open {
		status = http.StatusAccepted
	}
	writeJSON(w, status, text)
	return nil
}
