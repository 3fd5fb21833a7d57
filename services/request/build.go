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

// Agent is the User-Agent of built requests: kimbap is their client, and some
// APIs answer none that has no name.
const Agent = "kimbap"

// Build makes the request of an action from its arguments, which the resolver
// has checked. What cannot be built is an *runtime.Error with CodeInvalidInput.
func Build(action *runtime.Action, args runtime.Args) (*runtime.Built, error) {
	w := &writer{action: action, spec: action.HTTP, args: args}
	r, err := w.write()
	if err == nil {
		return r, nil
	}
	return nil, &runtime.Error{
		Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
		Msg:  fmt.Sprintf("these arguments do not make a request of %s: %s", action.Ref, err),
		Hint: "kimbap actions describe " + string(action.Ref),
		Ask:  "describe " + string(action.Ref) + ": GET /v1/actions/" + strings.Replace(string(action.Ref), ".", "/", 1),
	}
}

// writer builds one request.
type writer struct {
	action *runtime.Action
	spec   *runtime.HTTPSpec
	args   runtime.Args
}

// nothing is the value of a template that names an absent argument.
type nothing struct{}

func (w *writer) write() (*runtime.Built, error) {
	base, err := url.Parse(w.spec.BaseURL)
	if err != nil || len(w.spec.Authorities) == 0 {
		return nil, errors.New("the service has no host to send it to")
	}
	path, err := w.path()
	if err != nil {
		return nil, err
	}
	r := &runtime.Built{
		Method: w.spec.Method, Scheme: base.Scheme, Authority: w.spec.Authorities[0],
		Target: strings.TrimSuffix(base.EscapedPath(), "/") + path, Header: make(http.Header, len(w.spec.Headers)+2),
	}
	for _, f := range w.spec.Headers {
		for _, value := range w.texts(f.Value) {
			if strings.Trim(value, " \t") != value { // nobody who reads the field would see it
				return nil, fmt.Errorf("the header field %s would begin or end with a blank: leave it out", f.Name)
			}
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				return nil, fmt.Errorf("the header field %s would hold a line break or another control character: leave it out", f.Name)
			}
			r.Header.Add(f.Name, value)
		}
	}
	in, more := Spread(w.action, w.args)
	if pairs := w.query(in, more); len(pairs) > 0 {
		r.Target += "?" + strings.Join(pairs, "&")
	}
	if r.Body, err = w.encode(r, w.body(in, more)); err != nil {
		return nil, err
	}
	if len(r.Header["User-Agent"]) == 0 {
		r.Header["User-Agent"] = []string{Agent}
	}
	return r, nil
}

// path fills the path template: each value is one segment, or part of one, with
// "/" escaped; only {name...} keeps it.
func (w *writer) path() (string, error) {
	if strings.Contains(w.spec.Path, "*") {
		return "", errors.New("it covers many paths and cannot be called by name")
	}
	var b strings.Builder
	for _, p := range segments(w.spec.Path) {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		value, ok := w.segment(p.name)
		if !ok {
			return "", fmt.Errorf("the argument %q is missing: the path needs it", p.name)
		}
		parts := []string{value}
		if p.rest {
			parts = strings.Split(value, "/")
		}
		for i, part := range parts {
			if part == "." || part == ".." || part == "" && (len(parts) == 1 || i < len(parts)-1) {
				return "", fmt.Errorf("the argument %q stands in the path and may not be empty, \".\" or \"..\"", p.name)
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
		return Text(v), true
	}
}

// query returns the escaped pairs. An array is a pair for each element.
func (w *writer) query(in runtime.Place, more map[string]any) []string {
	var pairs []string
	for _, f := range w.spec.Query {
		for _, value := range w.texts(f.Value) {
			pairs = append(pairs, pair(f.Name, value))
		}
	}
	if in == runtime.InQuery {
		pairs = appendPairs(pairs, more)
	}
	return pairs
}

// body returns the filled body template, nothing when there is none.
func (w *writer) body(in runtime.Place, more map[string]any) any {
	var body any = nothing{}
	if w.spec.Body != nil {
		body = w.fill(w.spec.Body.Value)
	}
	if in != runtime.InBody || len(more) == 0 {
		return body
	}
	if isNothing(body) {
		return more
	}
	members, ok := body.(map[string]any)
	if !ok {
		return body
	}
	both := maps.Clone(more) // both may be arguments of the caller's
	maps.Copy(both, members)
	return both
}

// Spread returns the members of the rest argument where no template names it: they stand in
// the query or in the body, whichever is returned, by themselves. The members are the
// caller's and may not be changed.
func Spread(action *runtime.Action, args runtime.Args) (in runtime.Place, members map[string]any) {
	i := slices.IndexFunc(action.Params, func(p runtime.Param) bool { return action.Rest != "" && p.Name == action.Rest })
	if i < 0 || !Spreads(action) {
		return "", nil
	}
	members, _ = args[action.Rest].(map[string]any)
	return action.Params[i].In, members
}

// Spreads reports whether an action has a rest argument that no template names.
func Spreads(action *runtime.Action) bool {
	return action.Rest != "" && !inTemplates(action.HTTP, action.Rest)
}

// encode writes the body in its declared type.
func (w *writer) encode(r *runtime.Built, body any) (data []byte, err error) {
	if isNothing(body) {
		if w.action.Auth == nil || w.action.Auth.Type != runtime.AuthBody || w.spec.Method == http.MethodGet || w.spec.Method == http.MethodHead {
			return nil, nil
		}
		body = map[string]any{} // the credential needs one to stand in
	}
	members, _ := body.(map[string]any)
	kind := "application/json"
	switch w.spec.BodyType {
	case "form":
		kind, data = "application/x-www-form-urlencoded", []byte(strings.Join(appendPairs(nil, members), "&"))
	case "multipart":
		kind, data, err = multipartBody(members)
	case "raw":
		kind, data = "application/octet-stream", []byte(Text(body))
	default:
		data, err = JSON(body)
	}
	if err != nil {
		return nil, err
	}
	if len(r.Header["Content-Type"]) == 0 || w.spec.BodyType == "multipart" {
		r.Header["Content-Type"] = []string{kind}
	}
	return data, nil
}

// appendPairs appends the pairs of a query or form, sorted by name.
func appendPairs(pairs []string, object map[string]any) []string {
	for _, name := range sortedNames(object) {
		for _, value := range texts(object[name]) {
			pairs = append(pairs, pair(name, value))
		}
	}
	return pairs
}

func pair(name, value string) string { return url.QueryEscape(name) + "=" + url.QueryEscape(value) }

func sortedNames(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }

// Text is a value as it stands in a path, query, field or form.
func Text(v any) string {
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
			out = append(out, Text(item))
		}
		return out
	}
	return []string{Text(v)}
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
