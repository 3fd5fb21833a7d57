package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Service is one installed service, as scripts see it.
type Service struct {
	Name        string
	Aliases     []string
	Description string
	Actions     []*runtime.Action
}

// Catalog is what is installed.
type Catalog struct {
	Services []Service
	Suggest  func(ref string) []string // actions that a wrong name may have meant; may be nil

	// Missing says of a word that calls no installed service which one it means that
	// could be, and the command for that; "" for none. May be nil.
	Missing func(word string) (service, fix string)
}

// tools are the catalogue as one execution may use it.
type tools struct {
	catalog Catalog
	who     *runtime.Principal
	allow   []runtime.Glob
}

// may reports whether the execution may use an action: by the caller's scopes,
// and by its own list.
func (t *tools) may(ref runtime.Ref) bool { return t.who.Permits(ref) && t.allowed(ref) }

func (t *tools) allowed(ref runtime.Ref) bool {
	return len(t.allow) == 0 || slices.ContainsFunc(t.allow, func(g runtime.Glob) bool { return g.Match(string(ref)) })
}

// find is lookup for a call. The error is CodeUnknownAction, with what may have been meant,
// which takes long to find.
func (t *tools) find(path string) (*runtime.Action, *runtime.Error) {
	if action := t.lookup(path); action != nil {
		return action, nil
	}
	return nil, t.unknown(path)
}

// lookup resolves a path as a script writes it: github.listPullRequests,
// github["list-pull-requests"], or with an alias of the service. A name that is written
// exactly comes before others that may be written so. Nil: there is no such action.
func (t *tools) lookup(path string) *runtime.Action {
	word, name, dotted := strings.Cut(path, ".")
	if unspoken(path) {
		return nil
	}
	var like *runtime.Action
	for i := range t.catalog.Services {
		s := &t.catalog.Services[i]
		if !dotted || !s.called(word) {
			continue
		}
		for _, action := range s.Actions {
			switch {
			case action.Name == name && (s.Name == word || slices.Contains(s.Aliases, word)):
				return action
			case like == nil && named(action.Name, name), like != nil && like.Name != name && action.Name == name:
				like = action
			}
		}
	}
	return like
}

// unspoken reports whether a path has a name that the language asks objects for itself: by
// such a one the engine leads to nothing.
func unspoken(path string) bool {
	for part := range strings.SplitSeq(path, ".") {
		switch part {
		case "then", "constructor", "prototype":
			return true
		}
	}
	return false
}

// called reports whether a word of a script is the service's name or an alias.
func (s *Service) called(word string) bool {
	return named(s.Name, word) || slices.ContainsFunc(s.Aliases, func(alias string) bool { return named(alias, word) })
}

// named reports whether a script may write a name so: as it is, in camel case,
// with underscores, or as nested parts.
func named(name, written string) bool {
	return written == name || written == Camel(name) || strings.ReplaceAll(strings.ReplaceAll(written, "_", "-"), ".", "-") == name ||
		strings.Contains(written, ".") && kebab(written) == name
}

// Camel is how a script writes a name: listPullRequests for list-pull-requests.
func Camel(name string) string {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == '.' })
	for i, part := range parts {
		if i > 0 {
			parts[i] = strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return strings.Join(parts, "")
}

// kebab is the way back, for nested parts: issues.listAll is issues-list-all.
func kebab(written string) string {
	var b strings.Builder
	for _, r := range written {
		switch {
		case r == '.' || r == '_':
			b.WriteByte('-')
		case r >= 'A' && r <= 'Z':
			b.WriteByte('-')
			b.WriteRune(r + 'a' - 'A')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// toolPath is how a script writes an action.
func toolPath(action *runtime.Action) string { return Camel(action.Service) + "." + Camel(action.Name) }

func (t *tools) unknown(path string) *runtime.Error {
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Stage: runtime.StageResolve,
		Msg: fmt.Sprintf("there is no tool %s", shown(path)), Hint: `find tools with: await tools.search({query: "…"})`,
	}
	if service, fix := t.missing(path); service != "" {
		e.Msg, e.Hint = e.Msg+fmt.Sprintf(": the service %s is not in use here", shown(service)), fix
	} else if near := t.near(path); len(near) > 0 {
		e.Msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return e
}

// missing is the service that a path means and that is not there, and the command that
// brings it. Of one that the execution may not use nothing is said.
func (t *tools) missing(path string) (service, fix string) {
	word, name, _ := strings.Cut(path, ".")
	if t.catalog.Missing == nil || slices.ContainsFunc(t.catalog.Services, func(s Service) bool { return s.called(word) }) {
		return "", ""
	}
	service, fix = t.catalog.Missing(word)
	if service == "" || !t.may(runtime.Ref(service+"."+strings.TrimPrefix(kebab(name), "-"))) {
		return "", ""
	}
	return service, fix
}

// near are the tools that a path without one may have meant, as a script writes
// them; only those that it may use.
func (t *tools) near(path string) []string {
	word, name, _ := strings.Cut(path, ".")
	for i := range t.catalog.Services {
		if s := &t.catalog.Services[i]; s.called(word) {
			word = s.Name
		}
	}
	var out []string
	for _, ref := range t.suggest(word + "." + strings.TrimPrefix(kebab(name), "-")) {
		if action := t.lookup(ref); action != nil && t.may(action.Ref) {
			out = append(out, "tools."+toolPath(action))
		}
	}
	return out
}

func (t *tools) suggest(ref string) []string {
	if t.catalog.Suggest == nil {
		return nil
	}
	return t.catalog.Suggest(ref)
}

// notAllowed is the error of an action outside the execution's own list.
func notAllowed(ref runtime.Ref, allow []runtime.Glob) *runtime.Error {
	list := make([]string, len(allow))
	for i, g := range allow {
		list[i] = string(g)
	}
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonScope,
		Msg:  fmt.Sprintf("this execution may use %s only, and %s is outside", shown(strings.Join(list, ", ")), ref),
		Hint: "whoever started it chose the list",
	}
}

// available are the actions that the execution may use and can name, by name.
func (t *tools) available() []*runtime.Action {
	var out []*runtime.Action
	for i := range t.catalog.Services {
		for _, action := range t.catalog.Services[i].Actions {
			if t.may(action.Ref) && action.Callable() && !unspoken(toolPath(action)) {
				out = append(out, action)
			}
		}
	}
	slices.SortFunc(out, func(a, b *runtime.Action) int { return strings.Compare(string(a.Ref), string(b.Ref)) })
	return out
}

// manifest turns constant paths of a source into actions.
func (t *tools) manifest(paths []string) []string {
	out := []string{}
	for _, path := range paths {
		if path == "search" || path == "describe.tool" {
			continue
		}
		if action := t.lookup(path); action != nil {
			path = string(action.Ref)
		}
		out = append(out, path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// missed are the services that paths mean and that are not there, each with the
// command that brings it; nil: none.
func (t *tools) missed(paths []string) map[string]string {
	var out map[string]string
	for _, path := range paths {
		if service, fix := t.missing(path); service != "" {
			if out == nil {
				out = map[string]string{}
			}
			out[service] = fix
		}
	}
	return out
}

// strange are the constant paths of a source that are no action, nor a tool of ours,
// and what each may have meant.
func (t *tools) strange(paths []string) (out []string, meant map[string][]string) {
	for _, path := range paths {
		if t.lookup(path) != nil || path == "search" || path == "describe.tool" {
			continue
		}
		out = append(out, path)
		if near := t.near(path); len(near) > 0 {
			if meant == nil {
				meant = map[string][]string{}
			}
			meant[path] = near
		}
	}
	slices.Sort(out)
	return slices.Compact(out), meant
}

// leftOut are the actions among constant paths that the execution's own list refuses.
func (t *tools) leftOut(paths []string) (out []string) {
	for _, path := range paths {
		if action := t.lookup(path); action != nil && !t.allowed(action.Ref) {
			out = append(out, string(action.Ref))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// servicesOf are the services that a manifest names, in order.
func servicesOf(manifest []string) []string {
	var out []string
	for _, path := range manifest {
		service, _, _ := strings.Cut(path, ".")
		if !slices.Contains(out, service) {
			out = append(out, service)
		}
	}
	return out
}

// shown makes text of a script fit into a message.
func shown(text string) string {
	const most = 120
	text = strings.ToValidUTF8(text, "\uFFFD")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return fmt.Sprintf("%q", text)
}
