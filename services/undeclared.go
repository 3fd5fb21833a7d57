package services

import (
	"maps"
	"slices"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// spread returns the members of the rest argument where no template names it:
// they stand in the query or in the body by themselves.
func spread(action *runtime.Action, args runtime.Args, in runtime.Place) map[string]any {
	for i := range action.Params {
		if p := &action.Params[i]; p.Name == action.Rest && p.In == in && !inTemplates(action.HTTP, p.Name) {
			members, _ := args[p.Name].(map[string]any)
			return members
		}
	}
	return nil
}

func inTemplates(spec *runtime.HTTPSpec, name string) bool {
	named := func(fields []runtime.Field) bool {
		return slices.ContainsFunc(fields, func(f runtime.Field) bool { return inTree(f.Value.Value, name) })
	}
	for _, template := range spec.PathParams {
		if inTree(template, name) {
			return true
		}
	}
	return named(spec.Query) || named(spec.Headers) || spec.Body != nil && inTree(spec.Body.Value, name)
}

func inTree(tree any, name string) bool {
	switch v := tree.(type) {
	case string:
		return slices.Contains(holes(v), name)
	case []any:
		return slices.ContainsFunc(v, func(child any) bool { return inTree(child, name) })
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), func(child any) bool { return inTree(child, name) })
	}
	return false
}

// checkSpread keeps undeclared members from standing beside, or in the place
// of, what the service sets itself under that name: the argument that policy
// judged, a fixed value, the credential.
func checkSpread(action *runtime.Action, args runtime.Args) error {
	var taken []string
	for _, name := range append(paramNames(action), action.Auth.Query, action.Auth.Field) {
		if name != "" && name != action.Rest {
			taken = append(taken, name)
		}
	}
	for _, f := range action.HTTP.Query {
		taken = append(taken, f.Name)
	}
	if body := action.HTTP.Body; body != nil {
		if members, ok := body.Value.(map[string]any); ok {
			taken = append(taken, sortedKeys(members)...)
		}
	}
	pieced := wholes(action)
	for _, in := range []runtime.Place{runtime.InQuery, runtime.InBody} {
		inPieces := in == runtime.InQuery || action.HTTP.BodyType != "json"
		for _, name := range sortedKeys(spread(action, args, in)) {
			same := func(other string) bool { return classifier.SameParameter(name, other) }
			i, all := slices.IndexFunc(taken, same), taken
			if i < 0 && inPieces {
				i, all = slices.IndexFunc(pieced, func(other string) bool { return classifier.SamePart(name, other) }), pieced
			}
			if i >= 0 {
				return invalid(action, name, "may not be given undeclared: the service sets "+all[i]+" itself")
			}
		}
	}
	return nil
}

// wholes are the names under which a list, an object or what is inside of one stands:
// in a query or form some servers put it together from pieces.
func wholes(action *runtime.Action) []string {
	var out []string
	add := func(name string, template any) {
		switch v := template.(type) {
		case []any, map[string]any:
			out = append(out, name)
		case string:
			i := slices.IndexFunc(action.Params, func(p runtime.Param) bool { return p.Name == whole(v) })
			if i >= 0 && (action.Params[i].Type == runtime.TypeArray || action.Params[i].Type == runtime.TypeObject) {
				out = append(out, name)
			}
		}
	}
	for _, f := range action.HTTP.Query {
		add(f.Name, f.Value.Value)
	}
	if body := action.HTTP.Body; body != nil {
		members, _ := body.Value.(map[string]any)
		for _, name := range sortedKeys(members) {
			add(name, members[name])
		}
	}
	return out
}
