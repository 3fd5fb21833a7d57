package review

import (
	"encoding/json"
	"regexp"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// compare finds what is judged milder than by the old file: actions by their name, and
// requests, which a catch-all takes when their action is away, or a narrower action of lower
// risk beside it.
func (r *Report) compare(s, old *services.Service) {
	ranks := ranksOf(s)
	for _, was := range old.Actions {
		is := runtime.Action{Risk: was.Risk, GrantsAccess: was.GrantsAccess}
		if i := slices.IndexFunc(s.Actions, func(a *runtime.Action) bool { return a.Name == was.Name }); i >= 0 {
			is = *s.Actions[i]
		}
		switch {
		case slices.Index(r.levels, is.Risk) < slices.Index(r.levels, was.Risk):
			r.Lowered = append(r.Lowered, was.Name)
		case was.GrantsAccess && !is.GrantsAccess:
			r.Dropped = append(r.Dropped, was.Name)
		case was.Risk != runtime.RiskLow && milder(s, old, was, ranks):
			r.Gone = append(r.Gone, was.Name)
		}
	}
	for _, name := range s.Eased(old) {
		if !slices.Contains(r.Lowered, name) && !slices.Contains(r.Dropped, name) {
			r.Eased = append(r.Eased, name)
		}
	}
}

// place is the requests of one method at one host, as a route has them.
type place struct{ authority, method, path, match string }

// ranksOf are the places of a service's routes, with how bad what they take is.
func ranksOf(s *services.Service) map[place]int {
	ranks := map[place]int{}
	for i := range s.Routes {
		for _, at := range placesOf(s, i) {
			ranks[at] = max(ranks[at], s.Routes[i].Rank)
		}
	}
	return ranks
}

// milder reports whether some requests of the old file's action have no route of their own
// any more that is as bad, at a host that the service still has.
func milder(s, old *services.Service, was *runtime.Action, ranks map[place]int) bool {
	for i := range old.Routes {
		if old.Routes[i].Action != string(was.Ref) {
			continue
		}
		for _, at := range placesOf(old, i) {
			if slices.Contains(s.Authorities, at.authority) && ranks[at] < old.Routes[i].Rank && !widened(s, old, i, at) {
				return true
			}
		}
	}
	return false
}

// widened reports whether the action of an old route takes all its requests of a place still,
// and is as bad, under fewer conditions or with more values.
func widened(s, old *services.Service, i int, at place) bool {
	was := &old.Routes[i]
	for j := range s.Routes {
		is := &s.Routes[j]
		if is.Action == was.Action && is.Rank >= was.Rank && slices.Contains(is.Methods, at.method) && slices.Contains(is.Authorities, at.authority) &&
			pathOf(is.Path) == at.path && is.Covers(was) {
			return true
		}
	}
	return false
}

// pathOf is a path without the names of its parameters, which say nothing of the requests.
func pathOf(path string) string { return hole.ReplaceAllString(path, "{") }

// hole is a parameter of a path up to the end of its name.
var hole = regexp.MustCompile(`\{[^:.}]*`)

// placesOf are those of one of the routes.
func placesOf(s *services.Service, i int) (out []place) {
	r := &s.Routes[i]
	match, err := json.Marshal(r.Match)
	if err != nil {
		return nil // cannot be: texts alone
	}
	for _, authority := range r.Authorities {
		for _, method := range r.Methods {
			out = append(out, place{authority, method, pathOf(r.Path), string(match)})
		}
	}
	return out
}
