package openapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// body gives the members of a body an argument each, under their own names. What
// the schema requires is required: many descriptions forget to say it of the
// body, and none means that an empty one will do. A
// body without members is one argument; members whose type is not one alone,
// and members that the description leaves open, join an argument that takes
// whatever is not declared.
func (p *planner) body(a *action, s *schemas, b *payload) error {
	if a.method == "GET" || a.method == "HEAD" {
		p.lost["bodies of GET and HEAD"]++
		return nil
	}
	a.bodyType = b.kind
	if b.kind == "raw" {
		a.wholeBody(b, shape{typ: "string"})
		a.contentType(b.media)
		return nil
	}
	if base, _, _ := strings.Cut(strings.ToLower(b.media), ";"); b.kind == "json" && base != "application/json" {
		a.contentType(b.media)
	}
	c := content{shape: shape{typ: "object"}}
	for _, f := range b.fields {
		if f.typ == "array" {
			f.shape = inText(f)
		}
		c.members = append(c.members, member{f.name, f.required, f.shape, f.schema, false})
	}
	if b.fields == nil {
		var err error
		if c, err = s.content(b.schema, 0); err != nil {
			return err
		}
	}
	if len(c.members) == 0 || c.typ != "" && c.typ != "object" {
		a.single(b, c)
		return nil
	}
	var err error
	if c.members, err = p.deep(a, s, b, c.members); err != nil {
		return err
	}
	a.spreadBody(p, b, c)
	return nil
}

// contentType sends the type that the description has, where that is one.
func (a *action) contentType(media string) {
	if !strings.ContainsAny(media, "*{}") {
		a.headers = append(a.headers, pair{"Content-Type", media})
	}
}

// single is a body that is one argument.
func (a *action) single(b *payload, c content) {
	if c.typ == "" || c.typ == "null" || b.kind != "json" {
		c.typ = "object"
	}
	a.wholeBody(b, c.shape)
}

func (a *action) wholeBody(b *payload, s shape) {
	if s.description == "" {
		s.description = b.text
	}
	s.standard = nil
	a.whole = a.add("body", "request", b.required, s).name
}

func (a *action) spreadBody(p *planner, b *payload, c content) {
	var others []string
	before := len(a.args)
	for _, m := range c.members[:min(len(c.members), mostArgs+1)] {
		if m.readOnly || b.fields == nil && p.auth.inBody(m.name) {
			continue
		}
		if b.kind != "json" {
			m.shape = inForm(m.shape)
		}
		if m.scattered || m.typ == "" || m.typ == "null" || !plainKey(m.name) {
			others = append(others, m.name)
			continue
		}
		one := a.add(m.name, "body", m.required, m.shape)
		one.null = m.nullable && b.kind == "json"
		a.body = append(a.body, pair{m.name, "{" + one.name + "}"})
	}
	if len(others) == 0 && !c.open {
		return
	}
	if bodiless(a.method) { // what is not declared would go into the query
		for _, m := range c.members {
			b.required = b.required || m.required && !m.readOnly
		}
		a.args, a.body = a.args[:before], nil
	}
	if len(a.body) == 0 {
		a.wholeBody(b, shape{typ: "object"})
		return
	}
	text := "whatever else the body may hold"
	if len(others) > 0 {
		slices.Sort(others)
		text = "other members: " + strings.Join(others[:min(8, len(others))], ", ")
	}
	one := a.add("more", "body", false, shape{typ: "object", description: text})
	one.rest = true
}

// assume says the default and does not send it: it is what a server takes where nothing is
// given. In a change it would undo what is there, and it may not go with what is given.
func (one arg) assume() arg {
	if text := sentence(fmt.Sprint(one.standard)); one.standard != nil && len(text) <= 40 {
		one.description = strings.TrimSpace(one.description + " (default: " + text + ")")
	}
	one.standard = nil
	return one
}

// plainKey keeps a member's name from being taken for a template.
func plainKey(name string) bool { return name != "" && !strings.ContainsAny(name, "{}") }

// inForm is the shape of a member as a form carries it: text, and lists of it.
func inForm(s shape) shape {
	if s.typ == "object" || s.typ == "" {
		s.typ, s.enum, s.standard = "string", nil, nil
	}
	return s
}

// longestPattern is how long a pattern may be that is looked at, in bytes.
const longestPattern = 200

// clean keeps of a shape what the format takes, in an order that is its own.
func (one arg) clean() arg {
	one.description = sentence(one.description)
	if one.typ != "string" && one.typ != "array" || len(one.pattern) > longestPattern || badPattern(one.pattern) {
		one.pattern = ""
	}
	if one.typ != "integer" && one.typ != "number" {
		one.minimum, one.maximum = "", ""
	}
	if one.typ == "integer" {
		one.minimum, one.maximum = exactBound(one.minimum), exactBound(one.maximum)
	}
	one.enum = fitting(one.typ, one.enum)
	standard := fitting(one.typ, []any{one.standard})
	if one.typ == "array" || one.required || len(standard) == 0 || one.enum != nil && !slices.Contains(one.enum, standard[0]) || !one.bounds(standard[0]) {
		one.standard = nil
	}
	if one.pattern != "" {
		one.enum = nil
	}
	return one.assume()
}

// bounds reports whether a value is no number outside the argument's own bounds.
func (one arg) bounds(v any) bool {
	n, isNumber := v.(json.Number)
	least, most := one.minimum, one.maximum
	return !isNumber || (least == "" || !below(n, least)) && (most == "" || !below(most, n))
}

func below(a, b json.Number) bool {
	x, _ := a.Float64()
	y, _ := b.Float64()
	return x < y
}

// fitting keeps the values of a type, each once; nil when one does not fit.
func fitting(typ string, list []any) []any {
	var out []any
	for _, v := range list {
		ok := false
		switch one := v.(type) {
		case string:
			ok = typ == "string" || typ == "array"
		case bool:
			ok = typ == "boolean"
		case json.Number:
			ok = typ == "number" || typ == "integer" && wholeNumber().MatchString(string(one))
		}
		if !ok {
			return nil
		}
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// wholeNumber is one that every reader holds exactly.
var wholeNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?(0|[1-9][0-9]{0,14})$`) })

func exactBound(n json.Number) json.Number {
	if wholeNumber().MatchString(string(n)) {
		return n
	}
	return ""
}

// badPattern reports what RE2 does not take, such as look-ahead.
func badPattern(pattern string) bool {
	_, err := regexp.Compile(pattern)
	return err != nil
}
