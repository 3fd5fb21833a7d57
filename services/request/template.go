package request

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
)

// part is a piece of a template: plain text, or an argument's name.
type part struct {
	text string
	name string
	rest bool // {name...}
}

// split reads "{name}", "{name:type}" and "{name...}"; other braces are text.
func split(template string) []part {
	var parts []part
	for {
		open := strings.IndexByte(template, '{')
		if open < 0 {
			break
		}
		length := strings.IndexByte(template[open:], '}')
		if length < 0 {
			break
		}
		inner := template[open+1 : open+length]
		name, rest := strings.CutSuffix(inner, "...")
		name, _, _ = strings.Cut(name, ":")
		if !isName(name) {
			parts = append(parts, part{text: template[:open+1]})
			template = template[open+1:]
			continue
		}
		if open > 0 {
			parts = append(parts, part{text: template[:open]})
		}
		parts = append(parts, part{name: name, rest: rest})
		template = template[open+length+1:]
	}
	if template != "" {
		parts = append(parts, part{text: template})
	}
	return parts
}

func isName(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return text != ""
}

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
	parts := split(template)
	var b strings.Builder
	for _, p := range parts {
		if p.name == "" {
			b.WriteString(p.text)
			continue
		}
		value, given := w.args[p.name]
		if !given {
			return nothing{}
		}
		if len(parts) == 1 {
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
	return someTemplate(spec, func(template string) bool { return names(split(template), name) })
}

// Places is how many templates of a request name the argument.
func Places(spec *runtime.HTTPSpec, name string) (count int) {
	someTemplate(spec, func(template string) bool {
		if names(split(template), name) {
			count++
		}
		return false
	})
	return count
}

func names(parts []part, name string) bool {
	return slices.ContainsFunc(parts, func(p part) bool { return p.name == name })
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
	filled := func(parts []part) bool {
		return !slices.ContainsFunc(parts, func(p part) bool { return p.name != "" && !has(args, p.name) })
	}
	someTemplate(spec, func(template string) bool {
		if strings.Count(template, "{") < 2 { // as most
			return false
		}
		if parts := split(template); !filled(parts) {
			for _, p := range parts {
				if has(args, p.name) {
					lost = append(lost, p.name)
				}
			}
		}
		return false
	})
	lost = slices.DeleteFunc(lost, func(name string) bool {
		return someTemplate(spec, func(template string) bool {
			parts := split(template)
			return names(parts, name) && filled(parts)
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
	for _, p := range split(message) {
		switch value, given := args[p.name]; {
		case p.name == "":
			b.WriteString(p.text)
		case given:
			b.WriteString(Text(value))
		default:
			b.WriteString("{" + p.name + "}")
		}
	}
	return b.String()
}
