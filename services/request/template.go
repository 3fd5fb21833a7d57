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
	named := func(fields []runtime.Field) bool {
		return slices.ContainsFunc(fields, func(f runtime.Field) bool { return inTree(f.Value.Value, name) })
	}
	for _, template := range spec.PathParams {
		if inTree(template, name) {
			return true
		}
	}
	return named(spec.Query) || named(spec.Headers) || spec.Body != nil && inTree(spec.Body.Value, name)
}

func inTree(tree any, name string) bool {
	switch v := tree.(type) {
	case string:
		return slices.ContainsFunc(split(v), func(p part) bool { return p.name == name })
	case []any:
		return slices.ContainsFunc(v, func(child any) bool { return inTree(child, name) })
	case map[string]any:
		for _, child := range v {
			if inTree(child, name) {
				return true
			}
		}
	}
	return false
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
