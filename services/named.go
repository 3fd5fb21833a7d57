package services

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kimbap-run/kimbap/classifier/gitpush"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// A call by name: its arguments are completed and checked, and its request is built of them.

// built completes the arguments of a request that kimbap builds itself, and builds it. A
// program gets none. Arguments that are settled were completed before, and get no defaults.
func (s *Set) built(action *runtime.Action, given runtime.Args, settled bool) (runtime.Args, *runtime.Built, error) {
	if !action.Callable() {
		return nil, nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
			Msg:  fmt.Sprintf("%s covers many requests, so it cannot be called by name", action.Ref),
			Hint: "call a named action (kimbap actions list " + action.Service + "), or send the request itself: kimbap run -- curl …",
		}
	}
	args, err := declared(action, given)
	if err != nil {
		return nil, nil, err
	}
	for i := range action.Params {
		if p := &action.Params[i]; p.Split != "" {
			if err := fillSplit(action, p, args); err != nil {
				return nil, nil, err
			}
		}
	}
	for i := range action.Params {
		if err := settle(action, &action.Params[i], args, !settled); err != nil {
			return nil, nil, err
		}
		if err := toTexts(action, &action.Params[i], args); err != nil {
			return nil, nil, err
		}
	}
	if action.Command != nil {
		_, err := action.Command.Words(action.Params, args)
		return args, nil, err
	}
	if len(action.HTTP.Authorities) == 0 {
		return nil, nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
			Msg:  fmt.Sprintf("the service %s is installed without a value for its variables", action.Service),
			Hint: "kimbap service install " + action.Service + " --var NAME=VALUE",
		}
	}
	if err := dropUnsent(action, args, given); err != nil {
		return nil, nil, err
	}
	if err := checkSpread(action, args); err != nil {
		return nil, nil, err
	}
	built, err := request.Build(action, args)
	if err != nil {
		return nil, nil, err
	}
	if err := readPush(action, args, built); err != nil {
		return nil, nil, err
	}
	return args, built, nil
}

// readPush fills in the references of a push that is built: nobody says them, so
// that policy judges what is in the body. Those that were held for a person are the same.
func readPush(action *runtime.Action, args runtime.Args, built *runtime.Built) error {
	if !action.HTTP.Push {
		return nil
	}
	pushed, _ := gitpush.Refs(built.Body)
	if said, given := args[refs]; given && !reflect.DeepEqual(said, any(pushed)) {
		return invalid(action, refs, "is read from the push itself and cannot be given")
	}
	if pushed != nil {
		args[refs] = pushed
	}
	return nil
}

// declared takes the given arguments apart into declared ones and the rest.
func declared(action *runtime.Action, given runtime.Args) (runtime.Args, error) {
	args := make(runtime.Args, len(given)+len(action.Params))
	rest := map[string]any{}
	for _, name := range sortedKeys(given) {
		i := slices.IndexFunc(action.Params, func(p runtime.Param) bool { return p.Name == name })
		switch {
		case i >= 0 && given[name] == nil && !action.Params[i].Nullable: // as if it were not given
		case i >= 0:
			args[name] = given[name]
		case action.Rest == "":
			complaint := "is not declared"
			if near := nearest(name, paramNames(action)); near != "" {
				complaint += "; did you mean " + near + "?"
			}
			return nil, invalid(action, name, complaint)
		default:
			rest[name] = plain(given[name])
		}
	}
	if len(rest) == 0 {
		return args, nil
	}
	if whole, ok := args[action.Rest]; ok {
		object, complaint := coerce(&runtime.Param{Type: runtime.TypeObject}, whole)
		if complaint != "" {
			return nil, invalid(action, action.Rest, complaint)
		}
		merged := maps.Clone(object.(map[string]any))
		for name, v := range rest {
			if _, twice := merged[name]; twice {
				return nil, invalid(action, name, "is given twice")
			}
			merged[name] = v
		}
		rest = merged
	}
	args[action.Rest] = rest
	return args, nil
}

func paramNames(action *runtime.Action) []string {
	names := make([]string, len(action.Params))
	for i, p := range action.Params {
		names[i] = p.Name
	}
	return names
}

// fillSplit lets one argument fill several: --repo owner/repo. An argument that
// is among those it fills may also be given by itself.
func fillSplit(action *runtime.Action, p *runtime.Param, args runtime.Args) error {
	v, given := args[p.Name]
	if !given {
		return nil
	}
	re, complaint := splitPattern(p.Split)
	text, ok := plain(v).(string)
	if complaint != "" || !ok {
		return invalid(action, p.Name, "must be text of the form "+p.Split)
	}
	names := holes(p.Split)
	parts := re.FindStringSubmatch(text)
	if parts == nil {
		if slices.Contains(names, p.Name) {
			return nil
		}
		return invalid(action, p.Name, "must have the form "+p.Split)
	}
	delete(args, p.Name)
	for i, name := range names {
		if old, twice := args[name]; twice && request.Text(plain(old)) != parts[i+1] {
			return invalid(action, name, "is given twice, by itself and in "+p.Name)
		}
		args[name] = parts[i+1]
	}
	return nil
}

// settle brings one argument to its type, adds its default where one is wanted, and judges it.
func settle(action *runtime.Action, p *runtime.Param, args runtime.Args, defaults bool) error {
	v, given := args[p.Name]
	if !given {
		if p.Default != nil && defaults {
			args[p.Name] = p.Default
		} else if p.Required && (p.Split == "" || slices.Contains(holes(p.Split), p.Name)) {
			return invalid(action, p.Name, "is required")
		}
		return nil
	}
	if v == nil || hasFile(v) && action.TakesFile(p) { // null is left for what may be null
		return nil
	}
	value, complaint := coerce(p, v)
	if complaint == "" {
		complaint = check(p, value)
	}
	if complaint != "" {
		return invalid(action, p.Name, complaint)
	}
	args[p.Name] = value
	return nil
}
