package services

import (
	"encoding/json"
	"errors"
	"fmt"
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
		if text, ok := fillText(f.Value.Value, args); ok {
			in.Header.Set(f.Name, text)
		}
	}
	match, err := s.table.Match(in)
	if err == nil && match.NeedBody {
		if in.Body, err = fillBody(action, args); err == nil {
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
		e.Hint = "kimbap call " + match.Action
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
		inner = strings.TrimSuffix(inner, "}")
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
	}
	if query := fillQuery(action, args); len(query) > 0 {
		b.WriteString("?" + query.Encode())
	}
	return b.String(), nil
}

func fillQuery(action *runtime.Action, args runtime.Args) url.Values {
	query := url.Values{}
	for _, f := range action.HTTP.Query {
		template, _ := f.Value.Value.(string)
		if list, ok := args[whole(template)].([]any); ok {
			for _, v := range list {
				query.Add(f.Name, textOf(v))
			}
		} else if text, ok := fillText(template, args); ok {
			query.Set(f.Name, text)
		}
	}
	if rest, ok := spread(action, args, runtime.InQuery); ok {
		for name, v := range rest {
			query.Add(name, textOf(v))
		}
	}
	return query
}

// spread returns the members of the rest argument when no template names it and
// they stand in the place themselves.
func spread(action *runtime.Action, args runtime.Args, in runtime.Place) (map[string]any, bool) {
	for i := range action.Params {
		if p := &action.Params[i]; p.Name == action.Rest && p.In == in && in == runtime.InQuery {
			members, ok := args[p.Name].(map[string]any)
			return members, ok
		}
	}
	return nil, false
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

// fillBody is the body of a built request, as the classifier reads it.
func fillBody(action *runtime.Action, args runtime.Args) (*classifier.Body, error) {
	spec := action.HTTP
	if spec.Body == nil {
		return classifier.ParseBody("application/json", "", nil)
	}
	tree, _ := fillTree(spec.Body.Value, args)
	if spec.BodyType == "form" {
		form := url.Values{}
		if members, ok := tree.(map[string]any); ok {
			for name, v := range members {
				if list, ok := v.([]any); ok {
					for _, one := range list {
						form.Add(name, textOf(one))
					}
					continue
				}
				form.Set(name, textOf(v))
			}
		}
		return classifier.ParseBody("application/x-www-form-urlencoded", "", []byte(form.Encode()))
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	return classifier.ParseBody("application/json", "", text)
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
