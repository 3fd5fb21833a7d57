package services

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// What policy judges of a call by name are the arguments that its request says, as whoever
// reads it finds them there: not a list of one where the upstream gets what is in it, and no
// owner "a/b" of a repository "c" where it gets "a/b/c".

// toTexts brings an argument that is settled to what becomes of it in a query, a field, a
// form or parts, where everything is text: the elements of a list, the members of an
// object that stand there by themselves, and of a file the name that is sent. What has
// nothing in it is nothing there, and so is not given.
func toTexts(action *runtime.Action, p *runtime.Param, args runtime.Args) error {
	value, given := args[p.Name]
	if !given || !standsInTexts(action, p) {
		return nil
	}
	parts := p.In == runtime.InBody && action.HTTP.BodyType == "multipart"
	empty := false
	switch v := value.(type) {
	case []any:
		list := elements(v, parts)
		args[p.Name], empty = list, len(list) == 0
	case map[string]any:
		switch {
		case isSpread(action, p):
			members := fields(v, parts)
			args[p.Name], empty = members, len(members) == 0 && p.Name == action.Rest
		case parts && hasFile(v):
			args[p.Name] = asSent(v)
		}
	}
	if !empty {
		return nil
	}
	if delete(args, p.Name); p.Required {
		return invalid(action, p.Name, "is required, and an empty list is sent as nothing")
	}
	return nil
}

func standsInTexts(action *runtime.Action, p *runtime.Param) bool {
	switch p.In {
	case runtime.InQuery, runtime.InHeader:
		return action.HTTP != nil
	case runtime.InBody:
		return action.HTTP.BodyType == "form" || action.HTTP.BodyType == "multipart"
	}
	return false
}

// isSpread reports whether the members of an argument stand by themselves, each as a pair
// or part: those of the rest, and of what is the whole body.
func isSpread(action *runtime.Action, p *runtime.Param) bool {
	if body := action.HTTP.Body; body != nil && body.Value == "{"+p.Name+"}" {
		return true
	}
	return p.Name == action.Rest && request.Spreads(action)
}

// elements are those of a list as texts. Parts have files as they are, and none for null.
func elements(list []any, parts bool) []any {
	out := make([]any, 0, len(list))
	for _, v := range list {
		switch {
		case parts && v == nil:
		case parts && hasFile(v):
			out = append(out, asSent(v.(map[string]any)))
		default:
			out = append(out, request.Text(v))
		}
	}
	return out
}

// fields are members as who reads a form has them: a text, or several of one name.
func fields(members map[string]any, parts bool) map[string]any {
	out := make(map[string]any, len(members))
	for name, v := range members {
		list, many := v.([]any)
		if !many && v != nil {
			list = []any{v}
		}
		switch list = elements(list, parts); len(list) {
		case 0:
		case 1:
			out[name] = list[0]
		default:
			out[name] = list
		}
	}
	return out
}

func hasFile(v any) bool {
	members, isObject := v.(map[string]any)
	_, named := members["filename"]
	return isObject && named
}

// asSent is a file with the name that is sent.
func asSent(file map[string]any) map[string]any {
	text, isText := file["filename"].(string)
	if !isText || request.FileName(text) == text {
		return file
	}
	file = maps.Clone(file)
	file["filename"] = request.FileName(text)
	return file
}

// dropUnsent takes out the defaults that the request will not have, since what stands in
// one text with them is not given. An argument that the caller gave is refused instead: it
// may be what a rule allows the request for.
func dropUnsent(action *runtime.Action, args, given runtime.Args) error {
	for _, name := range request.Unsent(action.HTTP, args) {
		if _, said := given[name]; said {
			return invalid(action, name, "would not be sent: it stands in one text with another argument, which is not given")
		}
		delete(args, name)
	}
	return nil
}

// Unfilled are the fields whose text has an argument that is not given. Nothing of the service
// is sent there; in User-Agent and Content-Type stands what kimbap writes in every request.
func Unfilled(spec *runtime.HTTPSpec, args runtime.Args) []string {
	var out []string
	for _, f := range spec.Headers {
		template, isText := f.Value.Value.(string)
		lacks := func(name string) bool { _, given := args[name]; return !given }
		if names := holes(template); isText && whole(template) == "" && slices.ContainsFunc(names, lacks) {
			out = append(out, f.Name)
		}
	}
	return out
}

// OwnFields are the fields of a request that kimbap makes of an answer which say no argument
// of any action: kimbap's own name.
func OwnFields(header http.Header) []string {
	if list := header["User-Agent"]; len(list) == 1 && list[0] == request.Agent {
		return []string{"User-Agent"}
	}
	return nil
}

// asGiven refuses a request that says other arguments than those it was made of. A field
// that every request has, Content-Type or User-Agent, says the argument that was to fill it,
// also where nobody gave it; but none that could not be given so, or would then stand
// elsewhere too: what is judged makes the same request again, when it has waited.
func asGiven(action *runtime.Action, args runtime.Args, match classifier.Match) error {
	if body := action.HTTP.Body; body != nil { // also where it is not read, as parts
		if name := takesFromNext(body.Value, args); name != "" {
			return readOtherwise(action, name, "holds the text that parts it from what is behind it")
		}
	}
	for i := range action.Params {
		p := &action.Params[i]
		said, is := match.Args[p.Name]
		given, was := args[p.Name]
		switch {
		case is && !was && p.In == runtime.InHeader:
			if check(p, said) == "" && request.Places(action.HTTP, p.Name) == 1 {
				args[p.Name] = said
			}
		case slices.Contains(match.Astray, p.Name), is && !was:
			return readOtherwise(action, p.Name, "stands somewhere in the request where it was not put")
		case p.Name == action.Rest && p.In == runtime.InBody && action.HTTP.BodyType == "json" && !isUTF8(given): // nobody reads it back
			return readOtherwise(action, p.Name, "would be read otherwise than it is given: it is not UTF-8")
		case is && !sameValue(said, given):
			return readOtherwise(action, p.Name, "would be read otherwise than it is given: it is not UTF-8, or holds the text that parts it from what is behind it")
		}
	}
	return nil
}

// isUTF8 reports whether a document says the texts of a value, and their names, as they are.
func isUTF8(value any) bool {
	switch v := value.(type) {
	case string:
		return utf8.ValidString(v)
	case []any:
		return !slices.ContainsFunc(v, func(element any) bool { return !isUTF8(element) })
	case map[string]any:
		for name, member := range v {
			if !utf8.ValidString(name) || !isUTF8(member) {
				return false
			}
		}
	}
	return true
}

// takesFromNext is an argument, "" for none, that ends sooner than it is given to whoever
// reads a text of the body: what parts it from the next one there is in it too.
func takesFromNext(tree any, args runtime.Args) string {
	switch v := tree.(type) {
	case string:
		if strings.Count(v, "{") < 2 { // as most
			return ""
		}
		ps := request.Pieces(v)
		for i := 0; i+2 < len(ps); i++ {
			if ps[i].Hole == "" {
				continue
			}
			text, between := request.Text(args[ps[i].Hole]), ps[i+1].Text
			if strings.Index(text+between, between) < len(text) {
				return ps[i].Hole
			}
		}
	case []any:
		for _, child := range v {
			if name := takesFromNext(child, args); name != "" {
				return name
			}
		}
	case map[string]any:
		for _, member := range sortedKeys(v) {
			if name := takesFromNext(v[member], args); name != "" {
				return name
			}
		}
	}
	return ""
}

func readOtherwise(action *runtime.Action, name, complaint string) error {
	e := *runtime.AsError(invalid(action, name, complaint))
	e.Reason = runtime.ReasonAmbiguousParameter
	return &e
}

// sameValue compares two values of JSON. Numbers are the same if they are written alike.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		other, ok := b.(string)
		return ok && a == other
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, sameValue)
	case map[string]any:
		other, ok := b.(map[string]any)
		if !ok || len(a) != len(other) {
			return false
		}
		for name, v := range a {
			if w, is := other[name]; !is || !sameValue(v, w) {
				return false
			}
		}
		return true
	}
	_, isText := b.(string)
	return b != nil && !isText && request.Text(a) == request.Text(b)
}
