package trial

import (
	"cmp"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// documentOf is the argument of an action that is a GraphQL document, and a document of the
// kind that the action takes: any other text would be another action's. "" where none is.
func documentOf(s *services.Service, a *runtime.Action) (name, document string) {
	r := graphQLRoute(s, a)
	if r == nil {
		return "", ""
	}
	for _, arg := range r.Args {
		if arg.In == classifier.InBody && arg.Key == "/query" {
			return arg.Name, operation(r.Match.GraphQL)
		}
	}
	return "", ""
}

// wantsDocument reports whether an action is told by a GraphQL document: a request without
// one is no call of it, though the worst of its kind covers what cannot be read.
func wantsDocument(set *services.Set, a *runtime.Action) bool {
	s, ok := set.Service(a.Service)
	return ok && graphQLRoute(s, a) != nil
}

// graphQLRoute is the route of an action that a GraphQL document tells, nil where none does.
func graphQLRoute(s *services.Service, a *runtime.Action) *classifier.Route {
	i := slices.IndexFunc(s.Routes, func(r classifier.Route) bool { return r.Action == string(a.Ref) && r.Match.GraphQL != nil })
	if i < 0 {
		return nil
	}
	return &s.Routes[i]
}

// operation writes a document that selects one field, which the first pattern finds.
func operation(g *classifier.GraphQL) string {
	field := "example"
	for _, pattern := range g.Fields {
		if strings.HasPrefix(pattern, "!") {
			continue
		}
		deep, below := strings.CutPrefix(pattern, "**.")
		if field = strings.ReplaceAll(deep, "*", "Example"); below {
			field = "example { " + field + " }"
		}
		break
	}
	return strings.TrimSpace(cmp.Or(g.Type, "query")+" "+g.Operation) + " { " + field + " }"
}
