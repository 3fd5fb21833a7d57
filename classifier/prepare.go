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

// Join builds a table of prepared routes. The error holds, joined, an
// [*OverlapError] for each pair of routes that could both win.
func Join(routes []Prepared) (*Table, error) {
	t := &Table{hosts: map[origin]*host{}, owned: map[string]bool{}, secure: map[string]bool{}}
	for _, r := range routes {
		t.add(r.c)
	}
	var problems []error
	reported := map[[2]*compiled]bool{}
	for _, o := range slices.SortedFunc(maps.Keys(t.hosts), compareOrigins) {
		h := t.hosts[o]
		for _, method := range slices.Sorted(maps.Keys(h.methods)) {
			h.methods[method].walk(func(l *leaf) {
				problems = append(problems, l.settle(o, method, reported)...)
			})
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return t, nil
}
