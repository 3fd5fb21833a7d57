package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Built is a request that was built and not sent, without its credential.
type Built struct {
	Method    string
	Scheme    string
	Authority string // canonical host:port
	Target    string // raw path and query
	Header    http.Header
	Body      []byte // nil: none
}

// agent is the User-Agent of built requests: kimbap is their client, and some
// APIs answer none that has no name.
const agent = "kimbap"

// Build makes the request of an action from its arguments, which the resolver
// has checked. What cannot be built is an *runtime.Error with CodeInvalidInput.
func Build(action *runtime.Action, args runtime.Args) (*Built, error) {
	spec := action.HTTP
	if spec == nil || len(spec.Authorities) == 0 {
		return nil, invalid("the action %s has no request to build", action.Ref)
	}
	base, err := url.Parse(spec.BaseURL)
	if err != nil {
		return nil, invalid("the base_url of %s is not a URL", action.Service)
	}
	w := &writer{action: action, spec: spec, args: args, used: map[string]bool{}}
	path, err := w.path()
	if err != nil {
		return nil, err
	}
	r := &Built{
		Method: spec.Method, Scheme: base.Scheme, Authority: spec.Authorities[0],
		Target: strings.TrimSuffix(base.EscapedPath(), "/") + path, Header: http.Header{},
	}
	for _, f := range spec.Headers {
		for _, value := range w.texts(f.Value) {
			r.Header.Add(f.Name, value)
		}
	}
	pairs := w.query()
	body := w.body()
	pairs, body = w.leftovers(r, pairs, body)
	if len(pairs) > 0 {
		r.Target += "?" + strings.Join(pairs, "&")
	}
	if r.Body, err = w.encode(r, body); err != nil {
		return nil, err
	}
	if len(r.Header["User-Agent"]) == 0 {
		r.Header["User-Agent"] = []string{agent}
	}
	return r, nil
}

func invalid(format string, args ...any) error {
	return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf(format, args...), Hint: "see the action's arguments with: kimbap actions describe"}
}

// writer builds one request.
type writer struct {
	action *runtime.Action
	spec   *runtime.HTTPSpec
	args   runtime.Args
	used   map[string]bool // arguments that a template has named
}

// nothing is the value of a template that names an absent argument.
type nothing struct{}

// path fills the path template: each value is one segment, or part of one, with
// "/" escaped; only {name...} keeps it.
func (w *writer) path() (string, error) {
	if strings.Contains(w.spec.Path, "*") {
		return "", invalid("the action %s covers many paths and cannot be called by name", w.action.Ref)
	}
	var b strings.Builder
	for _, p := range split(w.spec.Path) {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		value, ok := w.segment(p.name)
		if !ok {
			return "", invalid("the argument %q is missing: the path of %s needs it", p.name, w.action.Ref)
		}
		parts := []string{value}
		if p.rest {
			parts = strings.Split(value, "/")
		}
		for i, part := range parts {
			if part == "." || part == ".." || part == "" && (i < len(parts)-1 || !p.rest) {
				return "", invalid("the argument %q may not be empty, \".\" or \"..\": it stands in the path", p.name)
			}
			parts[i] = url.PathEscape(part)
		}
		b.WriteString(strings.Join(parts, "/"))
	}
	return b.String(), nil
}

// segment is the text of a path parameter, through path_params when it is there.
func (w *writer) segment(name string) (string, bool) {
	template, mapped := w.spec.PathParams[name]
	if !mapped {
		template = "{" + name + "}"
	}
	switch v := w.fill(template).(type) {
	case nothing, nil:
		return "", false
	default:
		return text(v), true
	}
}

// query returns the escaped pairs. An array is a pair for each element.
func (w *writer) query() []string {
	var pairs []string
	for _, f := range w.spec.Query {
		for _, value := range w.texts(f.Value) {
			pairs = append(pairs, url.QueryEscape(f.Name)+"="+url.QueryEscape(value))
		}
	}
	return pairs
}

// body returns the filled body template, nothing when there is none. An object may be an
// argument of the caller's, which what is added to the body must not change.
func (w *writer) body() any {
	if w.spec.Body == nil {
		return nothing{}
	}
	filled := w.fill(w.spec.Body.Value)
	if object, ok := filled.(map[string]any); ok {
		return maps.Clone(object)
	}
	return filled
}

// leftovers places the arguments that no template names: where the schema says,
// else in the query of methods without a body, else in the body.
func (w *writer) leftovers(r *Built, pairs []string, body any) ([]string, any) {
	extra := map[string]any{}
	if rest, ok := w.args[w.action.Rest].(map[string]any); ok && w.action.Rest != "" && !w.used[w.action.Rest] {
		for name, value := range rest {
			extra[name] = value
		}
	}
	places := map[string]runtime.Place{}
	for _, p := range w.action.Params {
		value, given := w.args[p.Name]
		if p.Name == w.action.Rest || w.used[p.Name] || !given || p.Split != "" {
			continue
		}
		extra[p.Name], places[p.Name] = value, p.In
	}
	for _, name := range sortedNames(extra) {
		switch place := places[name]; {
		case place == runtime.InHeader:
			r.Header.Set(name, text(extra[name]))
		case place == runtime.InQuery || place != runtime.InBody && bodiless(w.spec.Method):
			for _, value := range texts(extra[name]) {
				pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(value))
			}
		default:
			body = withMember(body, name, extra[name])
		}
	}
	return pairs, body
}

// bodiless methods put arguments that no mapping names into the query.
func bodiless(method string) bool {
	return slices.Contains([]string{"GET", "HEAD", "DELETE", "OPTIONS"}, method)
}

// withMember adds a member to a body that is, or can become, an object.
func withMember(body any, name string, value any) any {
	object, ok := body.(map[string]any)
	if _, none := body.(nothing); none {
		object, ok = map[string]any{}, true
	}
	if !ok {
		return body
	}
	if _, taken := object[name]; !taken {
		object[name] = value
	}
	return object
}

// encode writes the body in its declared type.
func (w *writer) encode(r *Built, body any) ([]byte, error) {
	if _, none := body.(nothing); none {
		if w.action.Auth == nil || w.action.Auth.Type != runtime.AuthBody || bodiless(w.spec.Method) {
			return nil, nil
		}
		body = map[string]any{} // the credential needs one to stand in
	}
	kind, data := "", []byte(nil)
	var err error
	switch w.spec.BodyType {
	case "form":
		object, _ := body.(map[string]any)
		kind, data = "application/x-www-form-urlencoded", []byte(formPairs(object))
	case "multipart":
		object, _ := body.(map[string]any)
		kind, data, err = multipartBody(object)
	case "raw":
		kind, data = "application/octet-stream", []byte(text(body))
	default:
		kind = "application/json"
		data, err = JSON(body)
	}
	var named *runtime.Error
	if errors.As(err, &named) {
		return nil, err
	}
	if err != nil {
		return nil, invalid("the body of %s cannot be written as %s", w.action.Ref, w.spec.BodyType)
	}
	if len(r.Header["Content-Type"]) == 0 || w.spec.BodyType == "multipart" {
		r.Header["Content-Type"] = []string{kind}
	}
	return data, nil
}

// eachPair calls do for the pairs of a form, sorted by name.
func eachPair(object map[string]any, do func(name, value string) error) error {
	for _, name := range sortedNames(object) {
		for _, value := range texts(object[name]) {
			if err := do(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedNames(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

func formPairs(object map[string]any) string {
	var pairs []string
	_ = eachPair(object, func(name, value string) error {
		pairs = append(pairs, url.QueryEscape(name)+"="+url.QueryEscape(value))
		return nil
	})
	return strings.Join(pairs, "&")
}

// text is a value as it stands in a path, query, field or form.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return fmt.Sprint(v)
	}
	data, err := JSON(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// texts is a value as one or, for an array, several texts; none for nothing.
func texts(v any) []string {
	switch v := v.(type) {
	case nothing, nil:
		return nil
	case []any:
		var out []string
		for _, item := range v {
			out = append(out, text(item))
		}
		return out
	}
	return []string{text(v)}
}

// JSON writes a value as the bodies of built requests have it: on one line, and without
// the escapes for HTML that encoding/json adds.
func JSON(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
