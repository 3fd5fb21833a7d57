package openapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// shape is what a schema says of one argument.
type shape struct {
	typ              string // string, integer, number, boolean, array, object; "" when several or none
	description      string
	format           string
	enum             []any // plain values
	standard         any   // default: a plain value, which is said and not sent
	pattern          string
	minimum, maximum json.Number
	readOnly         bool
	nullable         bool // null is a value of it too
}

// member is one property of a body.
type member struct {
	name     string
	required bool
	shape
	schema    value
	scattered bool // what is inside stands in fields of its own, which are not listed
}

// body is what a schema says of a whole body.
type content struct {
	shape
	members  []member        // by name
	required map[string]bool // names, also of members that another part has
	open     bool            // members that are not listed may stand there
}

// The bounds of a walk through schemas: levels, schemas of one operation, and of
// all operations. The largest documents known need a tenth of the last.
const (
	deepest    = 24
	mostVisits = 20_000
	mostInAll  = 2_000_000
)

var (
	errTooMuch = errors.New("its schemas are too deep or too many")
	errTooDeep = fmt.Errorf("%w", errTooMuch) // as what is an element of itself
)

// schemas walks the schemas of one operation.
type schemas struct {
	*library
	visits int
}

func (s *schemas) enter(v value, depth int) (value, error) {
	s.visits++
	s.library.visits++
	switch {
	case s.visits > mostVisits || s.library.visits > mostInAll:
		return value{}, errTooMuch
	case depth > deepest:
		return value{}, errTooDeep
	}
	v, err := s.along(v, func(one value) bool { return s.beside && len(one.members()) > 1 })
	if ref := v.get("$ref"); ref.v != nil { // both hold
		own := maps.Clone(v.members())
		delete(own, "$ref")
		v.v = map[string]any{"allOf": []any{own, map[string]any{"$ref": ref.v}}}
	}
	return v, err
}

// shape reads a schema as that of one argument.
func (s *schemas) shape(v value, depth int) (shape, error) {
	v, err := s.enter(v, depth)
	if err != nil {
		return shape{}, err
	}
	out := shape{
		description: v.text("description"), format: v.text("format"), pattern: v.text("pattern"),
		minimum: number(v.get("minimum").v), maximum: number(v.get("maximum").v),
		standard: v.get("default").v, readOnly: v.is("readOnly"), enum: plainValues(v), nullable: nullable(v),
	}
	out.typ = typeOf(v)
	for _, part := range v.list("allOf") {
		more, err := s.shape(part, depth+1)
		if err != nil {
			return shape{}, err
		}
		out = out.and(more)
	}
	for _, field := range []string{"oneOf", "anyOf"} {
		if err := s.choices(v.list(field), depth, &out); err != nil {
			return shape{}, err
		}
	}
	if out.typ == "array" && out.enum == nil { // the values of an array's elements
		items, err := s.shape(v.get("items"), depth+1)
		if err == nil && items.typ == "string" {
			out.enum = items.enum
		} else if errors.Is(err, errTooMuch) && !errors.Is(err, errTooDeep) {
			return shape{}, err
		}
	}
	return out, nil
}

// and joins the parts of an allOf: what is said first stays.
func (a shape) and(b shape) shape {
	if a.typ == "" {
		a.typ, a.nullable = b.typ, a.nullable || b.nullable
	}
	if a.description == "" {
		a.description = b.description
	}
	if a.enum == nil {
		a.enum = b.enum
	}
	if a.standard == nil {
		a.standard = b.standard
	}
	a.format, a.pattern = cmp.Or(a.format, b.format), cmp.Or(a.pattern, b.pattern)
	a.minimum, a.maximum = cmp.Or(a.minimum, b.minimum), cmp.Or(a.maximum, b.maximum)
	a.readOnly = a.readOnly || b.readOnly
	return a
}

// choices reads oneOf and anyOf: one type when all agree, else none. The values
// of enums are joined where every choice has them.
func (s *schemas) choices(list []value, depth int, out *shape) error {
	types, enum, all := map[string]bool{}, []any(nil), true
	for _, choice := range list {
		c, err := s.shape(choice, depth+1)
		if err != nil {
			return err
		}
		out.nullable = out.nullable || c.nullable || c.typ == "null"
		if c.typ == "null" {
			continue
		}
		types[c.typ] = true
		enum, all = append(enum, c.enum...), all && c.enum != nil
	}
	if len(types) == 0 {
		return nil
	}
	if len(types) == 1 && out.typ == "" {
		for t := range types {
			out.typ = t
		}
	} else if len(types) > 1 {
		out.typ, all = "", false
	}
	if all && out.enum == nil {
		out.enum = enum
	}
	return nil
}

// content reads a schema as that of a body.
func (s *schemas) content(v value, depth int) (content, error) {
	v, err := s.enter(v, depth)
	if err != nil {
		return content{}, err
	}
	out := content{}
	if out.shape, err = s.shape(v, depth); err != nil {
		return content{}, err
	}
	if more := v.get("additionalProperties").v; more != nil && more != false {
		out.open = true
	}
	out.required = map[string]bool{}
	for _, name := range v.texts("required") {
		out.required[name] = true
	}
	for name := range v.get("properties").members() {
		property, err := s.shape(v.get("properties").get(name), depth+1)
		if err != nil {
			return content{}, err
		}
		out.members = append(out.members, member{name, out.required[name], property, v.get("properties").get(name), false})
	}
	for _, part := range v.list("allOf") {
		if err := s.join(&out, part, depth, true); err != nil {
			return content{}, err
		}
	}
	for _, field := range []string{"oneOf", "anyOf"} {
		for _, choice := range v.list(field) {
			if err := s.join(&out, choice, depth, false); err != nil {
				return content{}, err
			}
		}
	}
	for i := range out.members { // required may stand beside the part that has the property
		out.members[i].required = out.members[i].required || out.required[out.members[i].name]
	}
	slices.SortFunc(out.members, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// join adds the members of a part. Of a choice nothing is required, and what
// two choices say differently has no type.
func (s *schemas) join(out *content, part value, depth int, all bool) error {
	more, err := s.content(part, depth+1)
	if err != nil {
		return err
	}
	out.open = out.open || more.open
	if all {
		maps.Copy(out.required, more.required)
	}
	for _, m := range more.members {
		m.required = m.required && all
		i := slices.IndexFunc(out.members, func(have member) bool { return have.name == m.name })
		if i < 0 {
			out.members = append(out.members, m)
			continue
		}
		have := &out.members[i]
		have.nullable = have.nullable || !all && m.nullable
		have.required = have.required || m.required
		switch {
		case all:
			have.shape = have.and(m.shape)
		case have.typ != m.typ:
			have.typ, have.enum = "", nil
		case have.enum == nil || m.enum == nil:
			have.enum = nil
		default:
			have.enum = append(slices.Clone(have.enum), m.enum...)
		}
	}
	return nil
}

// typeOf is the one type a schema names, or what it must be; "null" counts only
// when it stands alone.
func typeOf(v value) string {
	if t, ok := v.get("type").v.(string); ok {
		return known(t)
	}
	if list := v.texts("type"); len(list) > 0 {
		list = slices.DeleteFunc(list, func(t string) bool { return t == "null" })
		if len(list) == 1 {
			return known(list[0])
		}
		if len(list) == 0 {
			return "null"
		}
		return ""
	}
	switch {
	case v.get("properties").v != nil || v.get("additionalProperties").v != nil:
		return "object"
	case v.get("items").v != nil:
		return "array"
	}
	t := ""
	for _, one := range plainValues(v) {
		if _, ok := one.(string); !ok || t != "" && t != "string" {
			return ""
		}
		t = "string"
	}
	return t
}

// nullable reports whether a schema says by itself that null is a value: OpenAPI 3.0
// has a word for it, 3.1 a type.
func nullable(v value) bool {
	values, _ := v.get("enum").v.([]any)
	bare := v.get("type").v == nil && slices.Contains(values, nil)
	return v.is("nullable") || bare || slices.Contains(v.texts("type"), "null")
}

func known(t string) string {
	switch t {
	case "string", "integer", "number", "boolean", "array", "object", "null":
		return t
	case "file": // Swagger 2.0
		return "string"
	}
	return ""
}

// plainValues are the values of enum or const; nil when one is not plain.
func plainValues(v value) []any {
	list, _ := v.get("enum").v.([]any)
	if c := v.get("const").v; c != nil {
		list = []any{c}
	}
	var out []any
	for _, one := range list {
		switch one.(type) {
		case string, bool, json.Number:
			out = append(out, one)
		case nil: // nullable
		default:
			return nil
		}
	}
	return out
}

func number(v any) json.Number {
	n, _ := v.(json.Number)
	return n
}
