package request

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// Piece is a part of a template: plain text, or the name of an argument.
type Piece struct{ Text, Hole string }

// Pieces takes a template apart. A hole is an argument's name between braces
// and nothing else, so that "{ id }" in a GraphQL text is text.
func Pieces(template string) []Piece {
	var out []Piece
	text := 0
	for i := 0; i < len(template); i++ {
		if template[i] != '{' {
			continue
		}
		end := strings.IndexByte(template[i:min(len(template), i+LongestName+2)], '}')
		if end < 0 {
			continue
		}
		name := template[i+1 : i+end]
		if !IsName(name) {
			continue
		}
		if i > text {
			out = append(out, Piece{Text: template[text:i]})
		}
		out = append(out, Piece{Hole: name})
		i += end
		text = i + 1
	}
	if text < len(template) {
		out = append(out, Piece{Text: template[text:]})
	}
	return out
}

// LongestName is the most bytes an argument's name may have.
const LongestName = 64

// IsName reports whether a text is one that an argument can have as its name.
func IsName(text string) bool {
	for i := range len(text) {
		if !NameByte(text[i]) {
			return false
		}
	}
	return text != "" && len(text) <= LongestName && (letter(text[0]) || text[0] == '_')
}

// NameByte reports whether a byte can stand in the name of an argument.
func NameByte(c byte) bool {
	return letter(c) || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// fill puts arguments into a template. A text that is one argument alone takes
// its type; one that names an absent argument is nothing, and so is the member
// or pair it would have been.
func (w *writer) fill(template any) any {
	switch t := template.(type) {
	case string:
		return w.fillText(t)
	case map[string]any:
		out := map[string]any{}
		for name, inner := range t {
			if v := w.fill(inner); !isNothing(v) {
				out[name] = v
			}
		}
		return out
	case []any:
		out := []any{}
		for _, inner := range t {
			if v := w.fill(inner); !isNothing(v) {
				out = append(out, v)
			}
		}
		return out
	}
	return template
}

func isNothing(v any) bool {
	_, none := v.(nothing)
	return none
}

func (w *writer) fillText(template string) any {
	pieces := Pieces(template)
	var b strings.Builder
	for _, p := range pieces {
		if p.Hole == "" {
			b.WriteString(p.Text)
			continue
		}
		value, given := w.args[p.Hole]
		if !given {
			return nothing{}
		}
		if len(pieces) == 1 {
			return value
		}
		b.WriteString(Text(value))
	}
	return b.String()
}

// texts fills a template and returns its values as text.
func (w *writer) texts(t runtime.Template) []string { return texts(w.fill(t.Value)) }

// inTemplates reports whether a template of the request names the argument.
func inTemplates(spec *runtime.HTTPSpec, name string) bool {
	return someTemplate(spec, func(template string) bool { return names(Pieces(template), name) })
}

// Places is how many templates of a request name the argument.
func Places(spec *runtime.HTTPSpec, name string) (count int) {
	someTemplate(spec, func(template string) bool {
		if names(Pieces(template), name) {
			count++
		}
		return false
	})
	return count
}

func names(pieces []Piece, name string) bool {
	return slices.ContainsFunc(pieces, func(p Piece) bool { return p.Hole == name })
}

// someTemplate reports whether one of the request's templates is what is looked for.
func someTemplate(spec *runtime.HTTPSpec, is func(template string) bool) bool {
	field := func(f runtime.Field) bool { return inTree(f.Value.Value, is) }
	for _, template := range spec.PathParams {
		if is(template) {
			return true
		}
	}
	return slices.ContainsFunc(spec.Query, field) || slices.ContainsFunc(spec.Headers, field) || spec.Body != nil && inTree(spec.Body.Value, is)
}

func inTree(tree any, is func(template string) bool) bool {
	switch v := tree.(type) {
	case string:
		return is(v)
	case []any:
		return slices.ContainsFunc(v, func(child any) bool { return inTree(child, is) })
	case map[string]any:
		for _, child := range v {
			if inTree(child, is) {
				return true
			}
		}
	}
	return false
}

// Unsent are the arguments, sorted, that a request would not have: each template that names
// one names another as well, which is not given, and so is nothing.
func Unsent(spec *runtime.HTTPSpec, args runtime.Args) []string {
	var lost []string
	filled := func(pieces []Piece) bool {
		return !slices.ContainsFunc(pieces, func(p Piece) bool { return p.Hole != "" && !has(args, p.Hole) })
	}
	someTemplate(spec, func(template string) bool {
		if strings.Count(template, "{") < 2 { // as most
			return false
		}
		if pieces := Pieces(template); !filled(pieces) {
			for _, p := range pieces {
				if has(args, p.Hole) {
					lost = append(lost, p.Hole)
				}
			}
		}
		return false
	})
	lost = slices.DeleteFunc(lost, func(name string) bool {
		return someTemplate(spec, func(template string) bool {
			pieces := Pieces(template)
			return names(pieces, name) && filled(pieces)
		})
	})
	slices.Sort(lost)
	return slices.Compact(lost)
}

func has(args runtime.Args, name string) bool {
	_, given := args[name]
	return given
}

// Expand fills the {argument} holes of a message, as error mappings of a
// service have them. An absent argument leaves its hole as it is. The result is text
// for a person and escaped for nothing.
func Expand(message string, args runtime.Args) string {
	var b strings.Builder
	for _, p := range Pieces(message) {
		switch value, given := args[p.Hole]; {
		case p.Hole == "":
			b.WriteString(p.Text)
		case given:
			b.WriteString(Text(value))
		default:
			b.WriteString("{" + p.Hole + "}")
		}
	}
	return b.String()
}
