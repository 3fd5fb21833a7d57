package classifier

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier/graphql"
)

// anyDepth begins a pattern of fields that counts below the root fields too.
const anyDepth = "**."

// CheckFields reports what is wrong with a list of [GraphQL] fields.
func CheckFields(fields []string) error {
	some := false
	for _, f := range fields {
		name, exempt := strings.CutPrefix(f, "!")
		name = strings.TrimPrefix(name, anyDepth)
		some = some || !exempt
		for i := range len(name) {
			if c := name[i]; c != '*' && !graphql.NameStart(c) && (i == 0 || !graphql.NameContinue(c)) {
				return fmt.Errorf("%s is not the name of a GraphQL field: letters, digits and _, with * for any of them", shown(f))
			}
		}
		if name == "" {
			return errors.New("a GraphQL field needs a name")
		}
	}
	if len(fields) > 0 && !some {
		return errors.New("the list of GraphQL fields only takes names out: add one that is looked for")
	}
	return nil
}

// finds reports whether what one operation asks for has a field that is looked for.
func (g *GraphQL) finds(one *call) bool {
	deep := g.atAnyDepth()
	return g.asksFor(one.fields) || len(deep.Fields) > 0 && deep.asksFor(one.all)
}

// atAnyDepth is what is looked for at any depth, as if all fields stood at the root.
func (g *GraphQL) atAnyDepth() (deep GraphQL) {
	for _, pattern := range g.Fields {
		name, exempt := strings.CutPrefix(pattern, "!")
		name, counts := strings.CutPrefix(name, anyDepth)
		switch {
		case counts && exempt:
			deep.Fields = append(deep.Fields, "!"+name)
		case counts:
			deep.Fields = append(deep.Fields, name)
		}
	}
	return deep
}

// asksFor reports whether one of the fields is looked for at the root. Names are compared
// as they are written: GraphQL's have a case.
func (g *GraphQL) asksFor(fields []string) bool {
	return slices.ContainsFunc(fields, g.wants)
}

func (g *GraphQL) wants(field string) bool {
	found := false
	for _, pattern := range g.Fields {
		name, exempt := strings.CutPrefix(pattern, "!")
		if found && !exempt {
			continue
		}
		if !matchesName(name, field) {
			continue
		}
		if exempt {
			return false
		}
		found = true
	}
	return found
}

// matchesName matches a name with a pattern in which "*" is any letters.
func matchesName(pattern, name string) bool {
	head, rest, stars := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, head)
	if !ok || !stars {
		return ok && name == ""
	}
	for {
		part, more, another := strings.Cut(rest, "*")
		if !another {
			return strings.HasSuffix(name, part)
		}
		_, behind, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name, rest = behind, more
	}
}

// within reports whether whatever has a field that g looks for has one that other
// looks for.
func (g *GraphQL) within(other *GraphQL) bool {
	for _, f := range g.Fields {
		if f[0] != '!' && !slices.Contains(other.Fields, f) {
			return false
		}
	}
	for _, f := range other.Fields {
		if f[0] == '!' && !slices.Contains(g.Fields, f) {
			return false
		}
	}
	return len(g.Fields) > 0
}

// fields reports whether a route looks at the fields of a document.
func (c *compiled) fields() bool { return c.graphql != nil && len(c.graphql.Fields) > 0 }

// know notes the operation of a route that wants one certain document, so that
// its fields are known before any request.
func (c *compiled) know() {
	for i := range c.conditions {
		cond := &c.conditions[i]
		if c.graphql == nil || cond.place != InBody || cond.others != nil || len(cond.tokens) != 1 || cond.tokens[0] != "query" {
			continue
		}
		r := graphqlRequest{document: cond.value}
		if one := r.call(); !one.unknown {
			c.known = &one
		}
	}
}

// outranks reports whether a may go before b because both look for root fields,
// of which one document can have both kinds, and a is the worse action.
func (a *compiled) outranks(b *compiled) bool {
	return a.fields() && b.fields() && a.weight >= b.weight && a.route.Rank > b.route.Rank
}

// understates reports whether a would make less of a request than b: one field of
// a document says nothing good about the others.
func (a *compiled) understates(b *compiled) bool {
	return a.fields() && !b.fields() && a.route.Rank < b.route.Rank
}

// impliesFields and excludesFields compare what two routes ask of root fields.
func (a *compiled) impliesFields(b *compiled) bool {
	switch {
	case !b.fields():
		return true
	case a.known != nil:
		return b.graphql.finds(a.known)
	}
	return a.fields() && a.graphql.within(b.graphql)
}

func (a *compiled) excludesFields(b *compiled) bool {
	return b.fields() && a.known != nil && !b.graphql.finds(a.known) ||
		a.fields() && b.known != nil && !a.graphql.finds(b.known)
}

// adviseFields says what to do about two routes that both could win because of
// root fields, "" when it is not that.
func (a *compiled) adviseFields(b *compiled) string {
	switch {
	case a.understates(b) || b.understates(a):
		return "one root field says nothing about the others, so give the action that looks for fields at least the risk of the other"
	case a.fields() && b.fields():
		return "one document can have root fields of both, so make them one action, or give the worse one the higher risk and no fewer conditions"
	case a.fields() || b.fields():
		return "one document can meet both, so give both the same type, and only one of them a name"
	}
	return ""
}
