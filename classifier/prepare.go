package classifier

import (
	"errors"
	"maps"
	"slices"
)

// Prepared is a route that was checked and compiled by itself. It is immutable
// and may be part of any number of tables.
type Prepared struct{ c *compiled }

// Prepare checks one route. Every problem is reported, joined, each a
// [*RouteError]. The route is copied; its maps and slices must not be changed
// afterwards.
func Prepare(r Route) (Prepared, error) {
	c, err := compileRoute(r)
	return Prepared{c}, err
}

// CheckPath reports what is wrong with a path pattern.
func CheckPath(pattern string) error {
	_, err := parsePattern(pattern)
	return err
}

// mostOverlaps bounds the pairs of routes that one error names: some thousand routes that are
// alike are some million pairs.
const mostOverlaps = 90

// ErrMoreOverlaps stands behind the first of very many [*OverlapError].
var ErrMoreOverlaps = errors.New("and more routes of which nothing says which one wins")

// Join builds a table of prepared routes. The error holds, joined, an
// [*OverlapError] for each pair of routes that could both win; of very many the first,
// and [ErrMoreOverlaps].
func Join(routes []Prepared) (*Table, error) {
	t := newTable()
	for _, r := range routes {
		t.own(r.c)
		t.add(r.c, nil)
	}
	if err := t.settle(slices.Collect(maps.Keys(t.hosts))); err != nil {
		return nil, err
	}
	return t, nil
}

// Group is some routes and the table that [Join] made of them.
type Group struct {
	Routes []Prepared
	Table  *Table
}

// Unite joins tables. A host that only one of them knows is taken over as it is:
// its routes were held against each other already. The error is that of [Join].
func Unite(groups []Group) (*Table, error) {
	t, tables := newTable(), map[origin]int{}
	for _, g := range groups {
		for o := range g.Table.hosts {
			tables[o]++
		}
	}
	for _, g := range groups {
		shares := false
		for o, h := range g.Table.hosts {
			if tables[o] == 1 {
				t.hosts[o] = h
			} else {
				shares = true
			}
		}
		for _, r := range g.Routes {
			t.own(r.c)
			if shares {
				t.add(r.c, func(o origin) bool { return tables[o] > 1 })
			}
		}
	}
	maps.DeleteFunc(tables, func(_ origin, n int) bool { return n == 1 })
	if err := t.settle(slices.Collect(maps.Keys(tables))); err != nil {
		return nil, err
	}
	return t, nil
}

func newTable() *Table {
	return &Table{hosts: map[origin]*host{}, owned: map[string]bool{}, secure: map[string]bool{}}
}

// settle puts the routes of some hosts in order. Only when some overlap is the
// order of the hosts and paths worth its time: that of what is reported.
func (t *Table) settle(origins []origin) error {
	good := true
	for _, o := range origins {
		for method, root := range t.hosts[o].methods {
			root.walk(func(l *leaf) { good = l.order(method) && good })
		}
	}
	if good {
		return nil
	}
	slices.SortFunc(origins, compareOrigins)
	var problems []error
	reported := map[[2]*compiled]bool{}
	for _, o := range origins {
		h := t.hosts[o]
		for _, method := range slices.Sorted(maps.Keys(h.methods)) {
			h.methods[method].walkSorted(func(l *leaf) {
				problems = append(problems, l.overlaps(o, method, reported)...)
			})
		}
	}
	if len(problems) > mostOverlaps {
		problems[mostOverlaps] = ErrMoreOverlaps
	}
	return errors.Join(problems...)
}
