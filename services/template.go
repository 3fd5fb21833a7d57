package services

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/kimbap-run/kimbap/classifier/strictjson"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// mostHoles bounds the arguments of one template: each is looked for in the whole text that a
// request has there.
const mostHoles = 32

// holes are the names in a template, in order, each once.
func holes(template string) []string {
	var out []string
	var known map[string]bool // once they are many: files are hostile
	for _, p := range request.Pieces(template) {
		if p.Hole == "" || known[p.Hole] || known == nil && slices.Contains(out, p.Hole) {
			continue
		}
		out = append(out, p.Hole)
		if known == nil && len(out) > mostHoles {
			known = map[string]bool{}
			for _, name := range out {
				known[name] = true
			}
		}
		if known != nil {
			known[p.Hole] = true
		}
	}
	return out
}

// crowded reports whether a template has arguments too often to be read back.
func crowded(pieces []request.Piece) bool {
	count := 0
	for _, p := range pieces {
		if p.Hole != "" {
			count++
		}
	}
	return count > mostHoles
}

// pathOnly finds braces that only a path may hold, "{id:int}", and names that
// are too long. Elsewhere one reader would take them for an argument and another
// for text, so they are neither. It reads the text once: files are hostile.
func pathOnly(template string) string {
	last := strings.LastIndexByte(template, '}')
	for i := 0; i < last; i++ {
		if template[i] != '{' {
			continue
		}
		end := i + 1
		for end < last && request.NameByte(template[end]) {
			end++
		}
		name := template[i+1 : end]
		if name != "" && (template[end] == ':' || template[end] == '}' && len(name) > request.LongestName) {
			return name
		}
		i = end - 1
	}
	return ""
}

// whole returns the argument a template consists of, "" when there is text too.
func whole(template string) string {
	if ps := request.Pieces(template); len(ps) == 1 {
		return ps[0].Hole
	}
	return ""
}

// inverse is the pattern that reads the arguments back from a filled template, each the
// group of its place among the [holes]; nil when there is none, or it is the whole value.
// Where several arguments stand in one template, each ends where the text that follows it
// begins for the first time.
func inverse(template string) *regexp.Regexp {
	ps := request.Pieces(template)
	if len(ps) <= 1 {
		return nil
	}
	var b strings.Builder
	b.WriteString("^(?s:")
	done := map[string]bool{}
	for i, piece := range ps {
		switch {
		case piece.Hole == "":
			b.WriteString(regexp.QuoteMeta(piece.Text))
			continue
		case !done[piece.Hole]:
			b.WriteByte('(')
			done[piece.Hole] = true
		default:
			b.WriteString("(?:")
		}
		switch last := i+2 >= len(ps); { // else text follows, and another argument after that
		case last:
			b.WriteString(".*)")
		case utf8.RuneCountInString(ps[i+1].Text) == 1: // the same as of others, and much faster
			b.WriteString("[^" + classOf(ps[i+1].Text) + "]*)")
		default:
			b.WriteString(".*?)")
		}
	}
	return regexp.MustCompile(b.String() + ")$")
}

// template checks a template that becomes text: every hole names an argument, and a
// list or an object stands alone.
func (p *parser) template(op *operation, n *yaml.Node, name string) string {
	template := p.textOf(n, name)
	ps := request.Pieces(template)
	if crowded(ps) {
		p.bad(n, "give them places of their own", "%s: one text holds at most %d arguments", name, mostHoles)
		op.place(template, "") // that they go nowhere is not what is wrong
		return ""
	}
	p.known(op, n, template)
	for i, piece := range ps {
		a := op.args[piece.Hole]
		if a == nil {
			continue
		}
		a.used = true
		if len(ps) > 1 && (a.Type == runtime.TypeArray || a.Type == runtime.TypeObject) {
			p.bad(n, "write \"{"+piece.Hole+"}\" alone", "%s: the %s {%s} cannot stand inside text", name, a.Type, piece.Hole)
		}
		if i > 0 && ps[i-1].Hole != "" {
			p.bad(n, "put a separator between them", "%s: {%s} and {%s} stand side by side and could not be told apart", name, ps[i-1].Hole, piece.Hole)
		}
	}
	return template
}

// known notes the holes of a template that name no argument.
func (p *parser) known(op *operation, n *yaml.Node, template string) {
	if inner := pathOnly(template); inner != "" {
		p.bad(n, "write the argument's name alone in braces; text in braces needs a space after the brace", "{%s…} is not the name of an argument", inner)
	}
	for _, hole := range holes(template) {
		if op.args[hole] != nil || slices.ContainsFunc(op.holes, func(h pathHole) bool { return h.name == hole }) {
			continue
		}
		fix := "declare it: args: [{name: " + hole + "}]; text in braces that is no argument needs a space after the brace"
		if near := nearest(hole, op.order); near != "" {
			fix = "did you mean {" + near + "}?"
		}
		p.bad(n, fix, "{%s} is not an argument of %s", hole, op.name)
	}
}

// constant reads a YAML value as JSON would hold it. Numbers keep their digits.
func (p *parser) constant(n *yaml.Node, name string) (any, bool) {
	switch n.Kind {
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, child := range n.Content {
			v, ok := p.constant(child, name)
			if !ok {
				return nil, false
			}
			out = append(out, v)
		}
		return out, true
	case yaml.MappingNode:
		out := map[string]any{}
		for _, m := range p.pairsOf(n, name) {
			v, ok := p.constant(m.value, name)
			if !ok {
				return nil, false
			}
			out[m.name] = v
		}
		return out, true
	case yaml.ScalarNode:
		return p.scalar(n, name)
	}
	return nil, false
}

func (p *parser) scalar(n *yaml.Node, name string) (any, bool) {
	switch n.Tag {
	case "!!null":
		return nil, true
	case "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case "!!int", "!!float":
		if !strictjson.IsNumber(n.Value) {
			p.bad(n, "write it as JSON does, or in quotes when it is text", "%s: %s is not a JSON number", name, shown(n.Value))
			return nil, false
		}
		return json.Number(n.Value), true
	}
	return n.Value, true
}
