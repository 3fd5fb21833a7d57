package services

import (
	"slices"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// checkSpread keeps undeclared members from standing beside, or in the place
// of, what the service sets itself under that name: the argument that policy
// judged, a fixed value, the credential.
func checkSpread(action *runtime.Action, args runtime.Args) error {
	in, members := request.Spread(action, args)
	if len(members) == 0 {
		return nil
	}
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
	inPieces := in == runtime.InQuery || action.HTTP.BodyType != "json"
	for _, name := range sortedKeys(members) {
		same := func(other string) bool { return classifier.SameParameter(name, other) }
		i, all := slices.IndexFunc(taken, same), taken
		if i < 0 && inPieces {
			i, all = slices.IndexFunc(pieced, func(other string) bool { return classifier.SamePart(name, other) }), pieced
		}
		if i >= 0 {
			return invalid(action, name, "may not be given undeclared: the service sets "+all[i]+" itself")
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
