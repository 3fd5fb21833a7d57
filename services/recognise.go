package services

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// recognise puts the arguments into the action's own request and asks the table
// what that request is. Values decide that too: an owner called "admin" may make
// the path another action's, a query text may hold a mutation. Policy judges the
// action that was named, so it must be the one that is sent.
func (s *Set) recognise(action *runtime.Action, args runtime.Args) error {
	origins := s.fillable[action.Ref]
	if len(origins) == 0 || len(action.HTTP.Authorities) == 0 {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
			Msg:  fmt.Sprintf("the service %s is installed without a value for its variables", action.Service),
			Hint: "kimbap service install " + action.Service + " --var NAME=VALUE",
		}
	}
	target, err := fillTarget(action, args)
	if err != nil {
		return err
	}
	in := classifier.Input{
		Scheme: origins[0].scheme, Authority: origins[0].authority, Method: action.HTTP.Method,
		Target: target, Header: http.Header{},
	}
	for _, f := range action.HTTP.Headers {
		for _, text := range fillTexts(f.Value.Value, args) {
			if strings.Trim(text, " \t") != text { // nobody who reads the field would see it
				return &runtime.Error{
					Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
					Msg:  fmt.Sprintf("these arguments do not make a request of %s: the header field %s would begin or end with a blank", action.Ref, f.Name),
					Hint: "leave the blank out",
				}
			}
			in.Header.Add(f.Name, text)
		}
	}
	body := bodyTree(action, args)
	if err := checkParts(action, body); err != nil {
		return err
	}
	if err := fillBody(action, body, &in); err != nil {
		return s.same(action, classifier.Match{}, err)
	}
	match, err := s.table.Match(in)
	if err == nil && match.NeedBody { // of a body that is neither JSON nor a form, or of none
		var data []byte
		if data, err = jsonText(body); err == nil {
			in.Body, err = classifier.ParseBody("application/json", "", data)
		}
		if err == nil {
			match, err = s.table.Match(in)
		}
	}
	return s.same(action, match, err)
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

// fillTarget is the request-target of a built request.
func fillTarget(action *runtime.Action, args runtime.Args) (string, error) {
	spec := action.HTTP
	var b strings.Builder
	if u, err := url.Parse(spec.BaseURL); err == nil {
		b.WriteString(u.EscapedPath())
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(spec.Path, "/"), "/") {
		b.WriteByte('/')
		inner, isHole := strings.CutPrefix(part, "{")
		if !isHole {
			b.WriteString(part)
			continue
		}
		inner, verb, _ := strings.Cut(inner, "}") // with its custom method: {model}:generateContent
		name, rest := strings.CutSuffix(inner, "...")
		name = strings.TrimSuffix(name, ":int")
		text, ok := fillText(spec.PathParams[name], args)
		if !ok || text == "" {
			return "", invalid(action, name, "stands in the path and may not be empty")
		}
		if rest {
			b.WriteString(strings.ReplaceAll(url.PathEscape(text), "%2F", "/"))
		} else {
			b.WriteString(url.PathEscape(text))
		}
		b.WriteString(verb)
	}
	if query := fillQuery(action, args); len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String(), nil
}

func fillQuery(action *runtime.Action, args runtime.Args) url.Values {
	query := url.Values{}
	for _, f := range action.HTTP.Query {
		for _, text := range fillTexts(f.Value.Value, args) {
			query.Add(f.Name, text)
		}
	}
	for name, v := range spread(action, args, runtime.InQuery) {
		list, isList := v.([]any)
		if !isList && v != nil { // null is no pair
			list = []any{v}
		}
		for _, one := range list {
			query.Add(name, textOf(one))
		}
	}
	return query
}

// fillTexts fills a template that may be a list; each element stands by itself.
func fillTexts(template any, args runtime.Args) []string {
	text, _ := template.(string)
	if list, ok := args[whole(text)].([]any); ok {
		out := make([]string, len(list))
		for i, v := range list {
			out[i] = textOf(v)
		}
		return out
	}
	if filled, ok := fillText(text, args); ok {
		return []string{filled}
	}
	return nil
}

// fillText fills a template that becomes text; false when an argument of it is
// not given.
func fillText(template any, args runtime.Args) (string, bool) {
	text, _ := template.(string)
	var b strings.Builder
	for _, piece := range pieces(text) {
		if piece.hole == "" {
			b.WriteString(piece.text)
			continue
		}
		v, given := args[piece.hole]
		if !given {
			return "", false
		}
		b.WriteString(textOf(v))
	}
	return b.String(), true
}

// fillBody gives the body of a built request to the classifier, also where nothing in
// it decides the action: one that asks for another method is refused to a program too.
func fillBody(action *runtime.Action, tree any, in *classifier.Input) (err error) {
	media, data := "application/json", []byte(nil)
	switch kind := action.HTTP.BodyType; {
	case tree == nil || kind == "multipart":
		return nil
	case kind == "raw":
		return checkMedia(in, "application/octet-stream", []byte(textOf(tree)))
	case kind == "form":
		media, data = "application/x-www-form-urlencoded", []byte(formOf(tree).Encode())
	default:
		if data, err = jsonText(tree); err != nil {
			return err
		}
	}
	if in.Body, err = classifier.ParseBody(media, "", data); err != nil {
		return err
	}
	return checkMedia(in, media, data)
}

// jsonText is a document as it is sent: "&" stands in it as it is.
func jsonText(tree any) ([]byte, error) {
	if tree == nil {
		return nil, nil
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(tree)
	return out.Bytes(), err
}

// checkParts refuses a body in parts that asks for another method.
func checkParts(action *runtime.Action, tree any) error {
	members, _ := tree.(map[string]any)
	if action.HTTP.BodyType != "multipart" {
		return nil
	}
	for _, name := range sortedKeys(members) {
		if classifier.AsksForMethod(name) {
			return invalid(action, name, "asks some servers for another method")
		}
	}
	return nil
}

// checkMedia looks at a body in the way of those who read it by its own Content-Type,
// which an argument may say.
func checkMedia(in *classifier.Input, kind string, data []byte) error {
	kinds := in.Header["Content-Type"]
	if len(kinds) == 0 {
		kinds = []string{kind}
	}
	watch := classifier.WatchOverride(kinds)
	if watch == nil || in.Method != http.MethodPost {
		return nil
	}
	if err := watch.Look(data); err != nil {
		return err
	}
	return watch.End()
}

// bodyTree is the body of a built request before it is written; nil for none.
func bodyTree(action *runtime.Action, args runtime.Args) any {
	var tree any
	if action.HTTP.Body != nil {
		tree, _ = fillTree(action.HTTP.Body.Value, args)
	}
	if more := spread(action, args, runtime.InBody); len(more) > 0 {
		members, _ := tree.(map[string]any)
		if members == nil {
			members = map[string]any{}
		}
		maps.Copy(members, more)
		tree = members
	}
	return tree
}

func formOf(tree any) url.Values {
	form := url.Values{}
	members, _ := tree.(map[string]any)
	for name, v := range members {
		list, ok := v.([]any)
		if !ok && v != nil {
			list = []any{v}
		}
		for _, one := range list {
			form.Add(name, textOf(one))
		}
	}
	return form
}

// fillTree fills a body. A member whose argument is not given is left out.
func fillTree(tree any, args runtime.Args) (any, bool) {
	switch v := tree.(type) {
	case string:
		if name := whole(v); name != "" {
			value, given := args[name]
			return value, given
		}
		return fillText(v, args)
	case []any:
		out := make([]any, 0, len(v))
		for _, child := range v {
			if filled, ok := fillTree(child, args); ok {
				out = append(out, filled)
			}
		}
		return out, true
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, child := range v {
			if filled, ok := fillTree(child, args); ok {
				out[name] = filled
			}
		}
		return out, true
	}
	return tree, true
}
