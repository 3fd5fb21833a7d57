package services

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
	"github.com/kimbap-run/kimbap/services/request"
)

// recognise asks the table what a request is that was built of an action's arguments.
// Values decide that too: an owner called "admin" may make the path another action's, a
// query text may hold a mutation. Policy judges the action that was named, so it must be
// the one that is sent.
//
// The request is read as the proxy reads one that comes, and the body also where nothing
// asks for it, if it is the document or form that the service says, or a document that some
// reader would take for a form: of other arguments than policy judges. What is read back
// must be the arguments, too. It returns what else some server could take the request for.
func (s *Set) recognise(action *runtime.Action, args runtime.Args, r *runtime.Built) ([]runtime.Other, error) {
	kinds := r.Header["Content-Type"]
	if len(kinds) > 1 {
		return nil, s.same(action, classifier.Match{}, severalTypes())
	}
	in := classifier.Input{Scheme: r.Scheme, Authority: r.Authority, Method: r.Method, Target: r.Target, Header: r.Header, Checked: true, Unfilled: Unfilled(action.HTTP, args)}
	illegible := r.Body != nil && (classifier.Packed(r.Header) || classifier.OtherCharset(kinds))
	if wroteBody(action.HTTP, r) || mayHoldParameters(r) || illegible && classifier.MayBeForm(r.Method, kinds) {
		if err := readBody(&in, r); err != nil {
			return nil, s.same(action, classifier.Match{}, err)
		}
	}
	if in.Body == nil && isWhole(action.HTTP, "multipart") {
		readParts(&in, r)
	}
	match, err := s.table.Match(in)
	if err == nil && in.Body == nil && match.NeedBody && action.HTTP.BodyType == "multipart" {
		readParts(&in, r)
		match, err = s.table.Match(in)
	}
	if err == nil && in.Body == nil && (match.NeedBody || illegible && len(match.Words) > 0) {
		if err = readBody(&in, r); err == nil {
			match, err = s.table.Match(in)
		}
	}
	if err == nil {
		err = lookForOverride(action.HTTP, &in, r, match.Words)
	}
	if err == nil {
		err = besideCredential(action, r)
	}
	if err == nil && in.Body == nil && r.Body != nil && action.HTTP.BodyType == "json" && classifier.MayBeForm(r.Method, kinds) {
		err = readBody(&in, r) // it has no more fields than one
	}
	if err := s.same(action, match, err); err != nil {
		return nil, err
	}
	return recognised.Others(match), asGiven(action, args, match)
}

// severalTypes refuses a body of which readers differ in what it is.
func severalTypes() error {
	return &classifier.Error{
		Code: string(runtime.CodeInvalidInput), Reason: string(runtime.ReasonDuplicateParameter),
		Msg: "the header field Content-Type would be there more than once",
	}
}

// readBody gives the body to the classifier, as those read it who go by its Content-Type.
func readBody(in *classifier.Input, r *runtime.Built) (err error) {
	text, err := classifier.Unpack(r.Header, r.Body, JudgedBody)
	if err == nil {
		in.Body, err = classifier.ParseBody(r.Header.Get("Content-Type"), "", text)
	}
	return err
}

// readParts gives the heads of the parts of a body to the classifier. There an argument may
// not be one that decides, nor, where it is the whole body, one of the query.
func readParts(in *classifier.Input, r *runtime.Built) {
	if r.Body != nil {
		in.Body = classifier.NamedParts(request.Heads(r.Header.Get("Content-Type"), r.Body))
	}
}

// besideCredential refuses a body that is one argument, and has a field beside the stored
// credential that some server would take for it: of a form, of parts, or of a document where
// the credential stands in the query. In a document it would be put into that very member.
func besideCredential(action *runtime.Action, r *runtime.Built) error {
	spec, auth := action.HTTP, action.Auth
	name := cmp.Or(auth.Field, auth.Query)
	if name == "" || r.Body == nil {
		return nil
	}
	var in classifier.Input
	switch {
	case isWhole(spec, "multipart"):
		readParts(&in, r)
	case auth.Query != "" && isWhole(spec, "json") && wroteBody(spec, r):
		if err := readBody(&in, r); err != nil {
			return err
		}
	case !isWhole(spec, "form") && spec.BodyType != "raw" || !classifier.MayBeForm(r.Method, r.Header["Content-Type"]):
		return nil
	default:
		if err := readBody(&in, r); err != nil {
			return err
		}
	}
	if in.Body.Names(name) {
		return &classifier.Error{
			Code: string(runtime.CodeInvalidInput), Reason: string(runtime.ReasonDuplicateParameter),
			Msg: "its body would have the field " + shown(name) + ", in whatever spelling, beside the credential",
		}
	}
	return nil
}

// isWhole reports whether a body of a type is one argument of any members.
func isWhole(spec *runtime.HTTPSpec, kind string) bool {
	if spec.Body == nil || spec.BodyType != kind {
		return false
	}
	template, isText := spec.Body.Value.(string)
	return isText && whole(template) != ""
}

// wroteBody reports whether a body is the document or form that it was written as. A field
// of the request may say otherwise.
func wroteBody(spec *runtime.HTTPSpec, r *runtime.Built) bool {
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch spec.BodyType {
	case "json":
		return r.Body != nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
	case "form":
		return r.Body != nil && media == "application/x-www-form-urlencoded"
	}
	return false
}

// mayHoldParameters reports whether some frameworks read a body like the query, where
// nobody expects one.
func mayHoldParameters(r *runtime.Built) bool {
	bodiless := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodDelete}, r.Method)
	return bodiless && r.Body != nil && classifier.HasParameters(r.Method, r.Header["Content-Type"])
}

// lookForOverride refuses a body that asks for another method, or that was not read and
// says a word again that decided in the query.
func lookForOverride(spec *runtime.HTTPSpec, in *classifier.Input, r *runtime.Built, words []string) error {
	if r.Body == nil {
		return nil
	}
	if in.Body != nil { // it was looked for there
		words = nil
	}
	kinds := r.Header["Content-Type"]
	watch := classifier.WatchWords(kinds, words...)
	if r.Method == http.MethodPost || classifier.IsParts(kinds) {
		watch = classifier.WatchOverride(kinds, words...)
	}
	if watch == nil {
		return nil
	}
	body := r.Body
	if spec.BodyType == "multipart" {
		body = request.Heads(r.Header.Get("Content-Type"), body)
	}
	if err := watch.Look(body); err != nil {
		return err
	}
	return watch.End()
}

func (s *Set) same(action *runtime.Action, match classifier.Match, err error) error {
	e := &runtime.Error{Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve, Hint: "kimbap actions describe " + string(action.Ref)}
	var ambiguous *classifier.Error
	switch {
	case errors.As(err, &ambiguous):
		e.Reason = runtime.Reason(ambiguous.Reason)
		e.Msg = fmt.Sprintf("these arguments do not make a request of %s: %s", action.Ref, ambiguous.Msg)
	case err != nil:
		e.Msg = fmt.Sprintf("these arguments do not make a request of %s", action.Ref)
		e.Err = err
	case match.Action == "":
		e.Reason = runtime.ReasonUnmatched
		e.Msg = fmt.Sprintf("these arguments do not make a request of %s: no action covers it", action.Ref)
	case match.Action != string(action.Ref):
		e.Msg = fmt.Sprintf("with these arguments the request is %s, not %s", match.Action, action.Ref)
		if other, ok := s.Action(match.Action); ok && other.Callable() {
			e.Hint = "kimbap call " + match.Action
		} else { // of its own path, and only the rest of the host is left
			e.Hint = "see whether an argument of the path has a slash, or what else a path does not have there: " + e.Hint
		}
	default:
		return nil
	}
	return e
}
