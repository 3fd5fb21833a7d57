package classifier

import (
	"slices"
	"strings"
)

// What two tables make of a request, by their routes alone.

// Covers reports whether all requests of another route, of a method and a host that both
// have, meet this one's path and conditions.
func (r *Route) Covers(other *Route) bool {
	a, b := outline(r), outline(other)
	return a != nil && b != nil && a.covers(b)
}

// Eased are the actions of routes that take requests which, of former routes, one of a higher
// rank took, by a narrower path or more conditions; each once.
func Eased(routes, former []Route) (actions []string) {
	var before []*compiled
	for i := range former {
		if c := outline(&former[i]); c != nil {
			before = append(before, c)
		}
	}
	for i := range routes {
		if c := outline(&routes[i]); c != nil && c.eases(before) {
			actions = append(actions, c.route.Action)
		}
	}
	slices.Sort(actions)
	return slices.Compact(actions)
}

// eases reports whether requests of one of its methods and hosts were of a higher rank: another
// route may have taken those of each.
func (c *compiled) eases(former []*compiled) bool {
	for _, method := range c.route.Methods {
		for _, authority := range c.route.Authorities {
			one := *c
			one.route.Methods, one.route.Authorities = []string{method}, []string{authority}
			if was := one.within(former); was != nil && was.route.Rank > c.route.Rank && !c.covers(was) {
				return true
			}
		}
	}
	return false
}

// within is the narrowest of the routes that took all requests of this one; nil for none.
func (c *compiled) within(former []*compiled) (narrowest *compiled) {
	for _, was := range former {
		if was.covers(c) && was.meets(c) && (narrowest == nil || narrowest.covers(was)) {
			narrowest = was
		}
	}
	return narrowest
}

// meets reports whether two routes have a method and a host in common.
func (c *compiled) meets(other *compiled) bool {
	in := func(list []string) func(string) bool { return func(s string) bool { return slices.Contains(list, s) } }
	return slices.ContainsFunc(c.route.Methods, in(other.route.Methods)) && slices.ContainsFunc(c.route.Authorities, in(other.route.Authorities))
}

// outline is a route's path and conditions; nil for one that does not compile.
func outline(r *Route) *compiled {
	c := &compiled{route: *r}
	var err error
	if c.pieces, err = parsePattern(r.Path); err != nil || c.compileConditions(r.Match) != nil {
		return nil
	}
	return c
}

func (c *compiled) covers(other *compiled) bool {
	return coversPath(c.pieces, other.pieces) && other.implies(c)
}

func coversPath(wide, narrow []piece) bool {
	if len(narrow) < len(wide)-1 {
		return false
	}
	for i := range wide {
		w := &wide[i]
		switch {
		case w.kind == any0:
			return true
		case i >= len(narrow):
			return false
		case w.kind == rest:
			return narrow[i].kind != any0
		case !w.covers(&narrow[i]):
			return false
		}
	}
	return len(wide) == len(narrow)
}

// covers reports whether a piece that is one segment takes all that another is.
func (p *piece) covers(other *piece) bool {
	if other.kind == rest || other.kind == any0 {
		return false
	}
	is := other.kind == literal
	switch p.kind {
	case literal:
		return is && other.text == p.text
	case custom:
		return other.kind == custom && other.verb == p.verb || is && strings.HasSuffix(other.text, p.verb) && other.text != p.verb
	case typed:
		return other.kind == typed || is && isInt(other.text)
	}
	return !is || other.text != ""
}
