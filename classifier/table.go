package classifier

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Table is a compiled set of routes. It is immutable and safe for concurrent
// use. The nil and the zero Table own no host.
type Table struct {
	hosts  map[origin]*host
	owned  map[string]bool // authorities, under whatever scheme
	secure map[string]bool // hosts owned as https on port 443
}

type origin struct{ scheme, authority string }

// host holds one trie per method.
type host struct{ methods map[string]*node }

// node is one place in a trie. Its children are tried from the most specific on.
type node struct {
	literals map[string]*node
	folded   map[string]*node // those literals that are not in lower case, by that, for near misses
	formats  map[string]*node // those literals that end in a format, without it and in lower case
	versions []*node          // those literals that name a version of the API
	customs  map[string]*node // custom methods, by ":verb"
	typed    *node
	variable *node
	end      *leaf // routes whose pattern ends here
	tail     *leaf // routes whose pattern goes on with {name...} or **
}

// leaf holds the routes of one pattern, the most specific conditions first.
type leaf struct {
	routes   []*compiled
	protocol protocol
	words    []string // parameters of the query that some of them look at
}

func compareOrigins(a, b origin) int {
	return cmp.Or(cmp.Compare(a.authority, b.authority), cmp.Compare(a.scheme, b.scheme))
}

// own notes whose the authorities of a route are.
func (t *Table) own(c *compiled) {
	for _, authority := range c.route.Authorities {
		t.owned[authority] = true
		if name, ok := strings.CutSuffix(authority, ":443"); ok && slices.Contains(c.route.Schemes, "https") {
			t.secure[name] = true
		}
	}
}

// add puts a route into the tries of its hosts, or of those that are wanted.
func (t *Table) add(c *compiled, wanted func(origin) bool) {
	for _, authority := range c.route.Authorities {
		for _, scheme := range c.route.Schemes {
			key := origin{scheme, authority}
			if wanted != nil && !wanted(key) {
				continue
			}
			h := t.hosts[key]
			if h == nil {
				h = &host{methods: map[string]*node{}}
				t.hosts[key] = h
			}
			for _, method := range c.route.Methods {
				h.insert(method, c)
				// RFC 9110 section 9.3.2: HEAD is GET without the content.
				if method == "GET" {
					h.insert("HEAD", c)
				}
			}
		}
	}
}

func (h *host) insert(method string, c *compiled) {
	root := h.methods[method]
	if root == nil {
		root = &node{}
		h.methods[method] = root
	}
	root.insert(c.pieces, c)
}

func (n *node) insert(pieces []piece, c *compiled) {
	for _, p := range pieces {
		switch p.kind {
		case literal:
			if n.literals == nil {
				n.literals = map[string]*node{}
			}
			n = child(n.literals[p.text], func(made *node) { n.keep(p.text, made) })
		case custom:
			if n.customs == nil {
				n.customs = map[string]*node{}
			}
			n = child(n.customs[p.verb], func(made *node) { n.customs[p.verb] = made })
		case typed:
			n = child(n.typed, func(made *node) { n.typed = made })
		case variable:
			n = child(n.variable, func(made *node) { n.variable = made })
		case rest, any0:
			n.tail = n.tail.with(c)
			return
		}
	}
	n.end = n.end.with(c)
}

// keep notes a new literal, and what is to be found near it.
func (n *node) keep(text string, made *node) {
	n.literals[text] = made
	if isVersion(text) {
		n.versions = append(n.versions, made)
	}
	lower := strings.ToLower(text)
	if lower != text {
		if n.folded == nil {
			n.folded = map[string]*node{}
		}
		n.folded[lower] = made
	}
	if dot := strings.LastIndexByte(lower, '.'); dot > 0 && isFormat(lower[dot:]) {
		if n.formats == nil {
			n.formats = map[string]*node{}
		}
		n.formats[lower[:dot]] = made
	}
}

func child(existing *node, keep func(*node)) *node {
	if existing == nil {
		existing = &node{}
		keep(existing)
	}
	return existing
}

func (l *leaf) with(c *compiled) *leaf {
	if l == nil {
		l = &leaf{}
	}
	if !slices.Contains(l.routes, c) {
		l.routes = append(l.routes, c)
	}
	return l
}

func (n *node) walk(visit func(*leaf)) {
	n.leaves(visit)
	for _, next := range n.literals {
		next.walk(visit)
	}
	for _, next := range n.customs {
		next.walk(visit)
	}
	for _, next := range [...]*node{n.typed, n.variable} {
		if next != nil {
			next.walk(visit)
		}
	}
}

// walkSorted is walk in the order of the paths.
func (n *node) walkSorted(visit func(*leaf)) {
	n.leaves(visit)
	for _, text := range slices.Sorted(maps.Keys(n.literals)) {
		n.literals[text].walkSorted(visit)
	}
	for _, verb := range slices.Sorted(maps.Keys(n.customs)) {
		n.customs[verb].walkSorted(visit)
	}
	for _, next := range [...]*node{n.typed, n.variable} {
		if next != nil {
			next.walkSorted(visit)
		}
	}
}

func (n *node) leaves(visit func(*leaf)) {
	if n.end != nil {
		visit(n.end)
	}
	if n.tail != nil {
		visit(n.tail)
	}
}

// order puts the routes of one pattern in the order in which they are tried, and
// reports whether something tells each from the others.
func (l *leaf) order(method string) bool {
	for _, c := range l.routes {
		l.protocol = max(l.protocol, c.protocol)
		for _, cond := range c.conditions {
			if cond.place == InQuery && !slices.Contains(l.words, cond.key) {
				l.words = append(l.words, cond.key)
			}
		}
	}
	if len(l.routes) == 1 {
		return true
	}
	slices.SortStableFunc(l.routes, func(a, b *compiled) int {
		return cmp.Or(
			cmp.Compare(b.weight, a.weight),
			cmp.Compare(b.speaks(method), a.speaks(method)),
			cmp.Compare(b.listing(), a.listing()),
			cmp.Compare(b.route.Rank, a.route.Rank),
			cmp.Compare(a.route.Source, b.route.Source),
			cmp.Compare(a.route.Action, b.route.Action),
		)
	})
	for i, a := range l.routes {
		for _, b := range l.routes[i+1:] {
			if a.alike(b, method) {
				return false
			}
		}
	}
	return true
}

// alike reports whether both routes could win.
func (c *compiled) alike(other *compiled, method string) bool {
	return c.speaks(method) == other.speaks(method) && !c.ranks(other)
}

// overlaps are the pairs of routes of one pattern that nothing tells apart, of many the first.
func (l *leaf) overlaps(o origin, method string, reported map[[2]*compiled]bool) []error {
	var problems []error
	for i, a := range l.routes {
		for _, b := range l.routes[i+1:] {
			if len(reported) > mostOverlaps {
				return problems
			}
			pair := [2]*compiled{a, b}
			if reported[pair] || reported[[2]*compiled{b, a}] || !a.alike(b, method) {
				continue
			}
			reported[pair] = true
			problems = append(problems, &OverlapError{
				First: a.claim(), Second: b.claim(),
				Scheme: o.scheme, Authority: o.authority, Method: method, Why: a.adviseFields(b),
			})
		}
	}
	return problems
}

// Host says whose an authority is under a scheme. The authority must be
// canonical. Cleartext to port 80 of a host that is owned as https is insecure,
// not foreign: its credential must not be expected there.
func (t *Table) Host(scheme, authority string) HostStatus {
	if t == nil {
		return HostForeign
	}
	if _, ok := t.hosts[origin{scheme, authority}]; ok {
		return HostOwned
	}
	if t.owned[authority] {
		return HostInsecure
	}
	if name, ok := strings.CutSuffix(authority, ":80"); ok && scheme == "http" && t.secure[name] {
		return HostInsecure
	}
	return HostForeign
}

// Intercepts reports whether a CONNECT to the canonical authority is to be
// intercepted: some service owns it, under whatever scheme, or its cleartext
// port has to be refused.
func (t *Table) Intercepts(authority string) bool {
	return t.Host("https", authority) != HostForeign || t.Host("http", authority) != HostForeign
}
