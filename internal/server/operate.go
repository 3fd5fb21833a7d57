package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/runtime"
)

func (s *Server) accept(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		For  span           `json:"for"`
		Run  bool           `json:"run"`
		Full bool           `json:"full"`
		As   string         `json:"as"`
		PIN  runtime.Secret `json:"-"`
		Text string         `json:"pin"`
	}
	if err := readAny(w, r, &body); err != nil {
		return err
	}
	if body.For < 0 {
		return invalid("leave for out, or write \"10m\"", "for is negative")
	}
	done, err := s.o.Operator.Decide(r.Context(), a.who, chi.URLParam(r, "id"), Decision{
		Accept: true, For: time.Duration(body.For), Run: body.Run, Full: body.Full, As: body.As, PIN: runtime.NewSecret(body.Text),
	})
	return answerJSON(w, http.StatusOK, done, err)
}

func (s *Server) reject(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Reason string `json:"reason"`
	}
	if err := readAny(w, r, &body); err != nil {
		return err
	}
	done, err := s.o.Operator.Decide(r.Context(), a.who, chi.URLParam(r, "id"), Decision{Note: body.Reason})
	return answerJSON(w, http.StatusOK, done, err)
}

// standing lists what earlier decisions still allow.
func (s *Server) standing(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "limit", "cursor"); err != nil {
		return err
	}
	items, err := s.o.Operator.Standing(r.Context(), a.who)
	return s.page(w, r, a, items, err)
}

// endStanding ends what one of them allows beyond its one request.
func (s *Server) endStanding(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	ended, err := s.o.Operator.EndStanding(r.Context(), a.who, chi.URLParam(r, "id"))
	return answerJSON(w, http.StatusOK, ended, err)
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request, a visit) error {
	names := []string{"action", "agent", "host", "kind", "effect", "code", "request", "execution", "text", "since", "until"}
	if err := onlyQuery(r, append(names, "limit", "cursor")...); err != nil {
		return err
	}
	q := r.URL.Query()
	f := Filter{
		Action: q.Get("action"), Agent: q.Get("agent"), Host: q.Get("host"), Kind: q.Get("kind"), Effect: q.Get("effect"), Code: q.Get("code"),
		Request: q.Get("request"), Execution: q.Get("execution"), Text: q.Get("text"),
	}
	for _, name := range []string{"kind", "effect", "code"} {
		known, text := runtime.RecordWords(name), q.Get(name)
		if text != "" && !slices.Contains(known, text) {
			return invalid(name+" is one of "+strings.Join(known, ", "), fmt.Sprintf("%s cannot be %.40q", name, text))
		}
	}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := q.Get(name); text != "" {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				return invalid("write 2026-01-31T08:00:00Z", name+" is not a time")
			}
			*to = at
		}
	}
	limit, after, err := s.where(r, a)
	if err != nil {
		return err
	}
	items, err := s.o.Operator.Records(r.Context(), a.who, f, after, limit+1)
	if err != nil {
		return err
	}
	return s.writePage(w, r, a, items, limit)
}

func (s *Server) tokens(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "limit", "cursor"); err != nil {
		return err
	}
	items, err := s.o.Operator.Tokens(r.Context(), a.who)
	return s.page(w, r, a, items, err)
}

func (s *Server) mint(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Agent  string   `json:"agent"`
		Scopes []string `json:"scopes"`
		Roles  []string `json:"roles"`
		Groups []string `json:"groups"`
		TTL    span     `json:"ttl"`
	}
	body.TTL = span(time.Hour) // unless another is asked for
	if _, err := read(w, r, &body); err != nil {
		return err
	}
	made, err := s.o.Operator.Mint(r.Context(), a.who, Grant{
		Agent: body.Agent, Scopes: body.Scopes, Roles: body.Roles, Groups: body.Groups, TTL: time.Duration(body.TTL),
	})
	return answerJSON(w, http.StatusCreated, made, err)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	return gone(w, s.o.Operator.Revoke(r.Context(), a.who, chi.URLParam(r, "id")))
}

func (s *Server) secrets(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r, "limit", "cursor"); err != nil {
		return err
	}
	items, err := s.o.Operator.Secrets(r.Context(), a.who)
	return s.page(w, r, a, items, err)
}

func (s *Server) setSecret(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Value string   `json:"value"`
		Hosts []string `json:"hosts"`
	}
	if _, err := read(w, r, &body); err != nil {
		return err
	}
	stored, err := s.o.Operator.SetSecret(r.Context(), a.who, chi.URLParam(r, "name"), runtime.NewSecret(body.Value), body.Hosts)
	return answerJSON(w, http.StatusOK, stored, err)
}

func (s *Server) removeSecret(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	return gone(w, s.o.Operator.RemoveSecret(r.Context(), a.who, chi.URLParam(r, "name")))
}

func gone(w http.ResponseWriter, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

const yamlType = "application/yaml"

// policy answers with the text of the rules and its entity tag (RFC 9110 section 8.8.3).
func (s *Server) policy(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	text, err := s.o.Operator.Policy(r.Context(), a.who)
	if err != nil {
		return err
	}
	tag := entityTag(text)
	w.Header().Set("ETag", tag)
	if isKnown(r.Header.Values("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", yamlType)
	_, _ = w.Write(text)
	return nil
}

// isKnown reports whether the values of an If-None-Match name a tag, or * (RFC 9110 section
// 13.1.2). Something between may have made it a weak one, as where it packs what passes.
func isKnown(values []string, tag string) bool {
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if one = strings.TrimSpace(one); one == "*" || strings.TrimPrefix(one, "W/") == tag {
			return true
		}
	}
	return false
}

// setPolicy replaces the rules by others, if those that the writer has seen are
// still there.
func (s *Server) setPolicy(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != yamlType {
		return notMedia(yamlType)
	}
	match := strings.Join(r.Header.Values("If-Match"), ",")
	if match == "" || strings.TrimSpace(match) == "*" { // * is of who has seen none
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPreconditionRequired, Msg: "a policy is replaced by who has seen the one that is there",
			Hint: "send the ETag of GET /v1/policy as If-Match",
		}
	}
	after, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return unread(r, err)
	}
	before, err := s.o.Operator.Policy(r.Context(), a.who)
	if err != nil {
		return err
	}
	if !names(match, entityTag(before)) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPreconditionFailed, Msg: "the policy is not the one that If-Match names",
			Hint: "GET /v1/policy, look at it, and try again with its ETag",
		}
	}
	if err := s.o.Operator.SetPolicy(r.Context(), a.who, before, after); err != nil {
		return err
	}
	w.Header().Set("ETag", entityTag(after))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// names reports whether a list of tags, as in If-Match, has one, which a weak tag is not (RFC
// 9110 section 13.1.1).
func names(list, tag string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(one) == tag {
			return true
		}
	}
	return false
}

func entityTag(text []byte) string {
	sum := sha256.Sum256(text)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// unread is why a body could not be read whole.
func unread(r *http.Request, err error) error {
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		e := &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonBodyTooLarge, Msg: "the request is over 512 KiB", Hint: "send less"}
		if r.URL.Path == execPath {
			e.Hint = "a script has at most 64 KiB"
		}
		return e
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // ours: http.Server.ReadTimeout
		return &runtime.Error{
			Code: runtime.CodeTimeout, Reason: runtime.ReasonRequestTimeout, Msg: "the request did not arrive within " + runtime.Span(arrival),
			Hint: "send it again, faster", Err: err,
		}
	}
	return &runtime.Error{Code: runtime.CodeCanceled, Msg: "the request ended early", Err: err}
}

func notMedia(want string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonUnsupportedMedia,
		Msg: "the request is not " + want, Hint: "send Content-Type: " + want,
	}
}
