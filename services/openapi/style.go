package openapi

import (
	"strings"
)

// How objects and lists stand in a query or a form (OpenAPI 3.1.1 section 4.8.12.2; the
// collectionFormat of Swagger 2.0).

// deepObject is the style of "card[number]=42". What it makes of a list is not defined;
// who has it, as Stripe, takes "expand[]=a".
const deepObject = "deepObject"

// spread gives each property of an object in the query an argument of its own,
// as style form and deepObject send them.
func (p *planner) spread(a *action, q parameter) bool {
	style := q.object.text("style")
	if q.asJSON || p.dialect == swagger {
		return false
	}
	s := &schemas{library: p.library}
	switch {
	case style == deepObject && (q.typ == "object" || q.typ == "array" || q.typ == ""):
		return p.spreadDeep(a, s, q)
	case q.typ != "object" || style != "" && style != "form" || q.object.get("explode").v == false:
		return false
	}
	c, err := s.content(q.schema, 0)
	if err != nil || len(c.members) == 0 {
		return false
	}
	for _, m := range c.members {
		a.inQuery(m, q.required)
	}
	return true
}

// spreadDeep does for deepObject. The bare name of an object is no argument: some
// servers take "created[gte]" for another spelling of "created", so a request with the
// one would be refused for the other. Only what has no members at all is a text.
func (p *planner) spreadDeep(a *action, s *schemas, q parameter) bool {
	list, err := s.inside(member{name: q.name, required: true, shape: q.shape, schema: q.schema})
	if q.typ == "" && err == nil && list == nil {
		return false
	}
	why := "objects in the query whose members are not listed"
	if len(a.args)+len(list) > mostArgs {
		why = "objects in the query with more members than an action has arguments"
	}
	if err != nil || list == nil || len(a.args)+len(list) > mostArgs {
		list = []member{{scattered: true}}
	}
	for _, m := range list {
		if m.scattered {
			p.lost[why]++
			continue
		}
		a.inQuery(m, q.required)
	}
	return true
}

// inQuery is a member of an object as a parameter of the query.
func (a *action) inQuery(m member, required bool) {
	m.shape = inText(parameter{shape: m.shape, object: value{}})
	one := a.add(m.name, "query", required && m.required, m.shape)
	a.query = append(a.query, pair{m.name, "{" + one.name + "}"})
}

// inside are the members of an object as deepObject sends them, "x[y]", or a list as it
// is then sent. Nil where none is listed.
func (s *schemas) inside(m member) ([]member, error) {
	if m.typ == "array" {
		m.name += "[]"
		return []member{m}, nil
	}
	c, err := s.content(m.schema, 0)
	if err != nil {
		return nil, err
	}
	for i := range c.members {
		one := &c.members[i]
		one.name = m.name + "[" + one.name + "]"
		one.required = one.required && m.required
		switch one.typ {
		case "array":
			one.name += "[]"
		case "object":
			one.scattered = true
		}
	}
	return c.members, nil
}

// deep puts in the place of members of a form, of which its encoding says deepObject,
// what is sent of them.
func (p *planner) deep(a *action, s *schemas, b *payload, list []member) ([]member, error) {
	body, err := p.follow(a.from.object.get("requestBody"))
	if err != nil || b.kind != "form" {
		return list, err
	}
	encoding := body.get("content").get(b.media).get("encoding")
	var out []member
	for i, m := range list {
		if encoding.get(m.name).text("style") != deepObject {
			if m.typ == "array" {
				m.shape = inText(parameter{shape: m.shape, object: encoding.get(m.name)})
			}
			out = append(out, m)
			continue
		}
		inside, err := s.inside(m)
		if err != nil {
			return nil, err
		}
		if object := m.typ == "object" || m.typ == ""; !object && m.typ != "array" {
			inside = []member{m}
		} else if inside == nil || len(out)+len(inside)+len(list)-i > mostArgs {
			m.scattered = true
			inside = []member{m}
		}
		out = append(out, inside...)
	}
	return out, nil
}

// inText is the shape of a parameter as text carries it. A list or an object that
// stands in one value, with commas between, is a text.
func inText(q parameter) shape {
	s := q.shape
	asText := func(how string) {
		s.typ, s.enum, s.standard = "string", nil, nil
		s.description = strings.TrimSpace(s.description + how)
	}
	switch s.typ {
	case "array":
		if q.asJSON {
			asText(" (a list, as JSON)")
		} else if between := joined(q); between != "" {
			asText(" (several with " + between + " between)")
		}
	case "object":
		if !q.asJSON && q.object.get("explode").v == false {
			asText(" (names and values, with commas between)")
		} else if !q.asJSON {
			asText("")
		}
	case "", "null":
		asText("")
	}
	return s
}

// joined is what stands between the elements of a list in one value, "" for a list of
// which each has its own.
func joined(q parameter) string {
	style := q.object.text("style")
	if q.object.text("type") == "array" { // Swagger 2.0
		style = q.object.text("collectionFormat")
	}
	switch style {
	case "spaceDelimited", "ssv":
		return "blanks"
	case "pipeDelimited", "pipes":
		return "|"
	case "tsv":
		return "tabs"
	case "multi":
		return ""
	}
	if q.object.text("type") == "array" || q.object.get("explode").v == false {
		return "commas"
	}
	return ""
}
