package services

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/classifier/gitpush"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/request"
)

// Resolve implements [runtime.Resolver]. A request that a caller made itself
// (Raw is set) had its arguments read back from its bytes: what is there is
// checked, required ones are missed in path and query, in the body where the
// service is strict, and nothing is added; one that has waited must be the same
// action still. For a request that is to be built, texts are brought to their types,
// splits and rest are filled, defaults added, and the request that results, which is
// returned to be sent, must be recognised as the same action.
//
// The errors are [*runtime.Error] with CodeUnknownAction, CodeInvalidInput and,
// for a request that the set in force has no route for, CodeForbidden. They
// name arguments and never show values.
func (s *Set) Resolve(req *runtime.Request) (runtime.Resolved, error) {
	if req.Action.Foreign() {
		action, err := s.foreign(req)
		if err != nil {
			return runtime.Resolved{}, err
		}
		return runtime.Resolved{Action: action, Args: runtime.Args{}}, nil
	}
	action, ok := s.Action(string(req.Action))
	if !ok {
		return runtime.Resolved{}, s.unknown(string(req.Action))
	}
	if req.Raw != nil {
		if req.Waited {
			if err := s.still(action, req); err != nil {
				return runtime.Resolved{}, err
			}
		}
		args, err := s.received(action, req)
		if err != nil {
			return runtime.Resolved{}, err
		}
		return runtime.Resolved{Action: action, Args: args}, nil
	}
	args, built, err := s.built(action, req.Args)
	if err != nil {
		return runtime.Resolved{}, err
	}
	return runtime.Resolved{Action: action, Args: args, Built: built}, nil
}

// foreign is the action of traffic to a host that has no service. It is not for
// hosts that have one: these are intercepted and judged by their actions.
func (s *Set) foreign(req *runtime.Request) (*runtime.Action, error) {
	t := req.Target
	if t.Authority == "" {
		return nil, s.unknown(string(req.Action))
	}
	owned := s.table.Host(t.Scheme, t.Authority) != classifier.HostForeign
	if t.Scheme == "tcp" {
		owned = s.table.Intercepts(t.Authority)
	}
	if owned {
		return nil, stale("a service owns this host, so the request cannot pass unrecognised")
	}
	if req.Action == runtime.ActionPass && runtime.RawPort(t.Authority) {
		return nil, stale("only a raw tunnel leads to this port")
	}
	action := &runtime.Action{
		Ref: req.Action, Service: "net", Name: strings.TrimPrefix(string(req.Action), "net."), Backend: "rest",
		Description: "traffic to a host that has no service", Risk: runtime.RiskUnmatched,
		WebSocket: true, Auth: &runtime.Auth{Type: runtime.AuthNone},
	}
	if t.Scheme == "tcp" {
		action.Backend = "tunnel"
	}
	if req.Action == runtime.ActionTunnel {
		action.Risk = runtime.RiskCritical
		action.Description = "a connection that may carry any protocol, neither TLS nor HTTP"
	}
	return action, nil
}

func stale(msg string) error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonUnmatched, Stage: runtime.StageResolve,
		Msg: msg, Hint: "send the request again: the installed services may just have changed",
	}
}

func (s *Set) unknown(ref string) error {
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Stage: runtime.StageResolve,
		Msg: fmt.Sprintf("there is no action %s", shown(ref)), Hint: "kimbap actions list", Ask: "search for it, or list the actions: GET /v1/actions",
	}
	name, _, _ := strings.Cut(ref, ".")
	if near := s.Suggest(ref); len(near) > 0 {
		e.Hint, e.Ask = "did you mean "+strings.Join(near, " or ")+"?", ""
	} else if service, ok := s.byName[name]; ok {
		e.Hint = "kimbap actions list " + service.Name
	} else {
		e.Msg += fmt.Sprintf(": no service %s is installed", shown(name))
	}
	return e
}

// invalid is the error for one argument.
func invalid(action *runtime.Action, name, complaint string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
		Msg:  fmt.Sprintf("argument %s of %s %s", shown(name), action.Ref, complaint),
		Hint: "kimbap actions describe " + string(action.Ref),
		Ask:  "describe " + string(action.Ref) + ": GET /v1/actions/" + strings.Replace(string(action.Ref), ".", "/", 1),
	}
}

// received judges arguments that the classifier read from the caller's request.
func (s *Set) received(action *runtime.Action, req *runtime.Request) (runtime.Args, error) {
	if action.HTTP == nil || !slices.Contains(action.HTTP.Authorities, req.Target.Authority) {
		return nil, stale(fmt.Sprintf("%s does not belong to the service %s", req.Target.Authority, action.Service))
	}
	if name, found := undeclared(action, req.Args); found {
		return nil, invalid(action, name, "is not declared")
	}
	service, ok := s.byName[action.Service]
	strict := ok && service.Strict
	args, empty := req.Args, false
	for i := range action.Params {
		p := &action.Params[i]
		v, given := req.Args[p.Name]
		if given && v == nil && p.Nullable {
			continue
		}
		if !given || v == nil {
			if p.Required && missed(action, p, req, strict) {
				return nil, invalid(action, p.Name, "is required")
			}
			empty = empty || given
			continue
		}
		if !hasType(p.Type, v) {
			return nil, invalid(action, p.Name, "must be of type "+string(p.Type))
		}
		if complaint := check(p, v); complaint != "" {
			return nil, invalid(action, p.Name, complaint)
		}
		if p.Type == runtime.TypeBoolean && len(p.Enum) > 0 && slices.Contains(req.Astray, p.Name) {
			return nil, invalid(action, p.Name, "must be written true or false, and stand where the service has it")
		}
	}
	if empty || args == nil {
		args = withoutEmpty(action, args)
	}
	return args, nil
}

// withoutEmpty copies arguments but those that are null where null says nothing.
func withoutEmpty(action *runtime.Action, args runtime.Args) runtime.Args {
	kept := make(runtime.Args, len(args))
	for i := range action.Params {
		p := &action.Params[i]
		if v, given := args[p.Name]; given && (v != nil || p.Nullable) {
			kept[p.Name] = v
		}
	}
	return kept
}

// undeclared finds the first, by its name, of the arguments that the action does not have.
func undeclared(action *runtime.Action, args runtime.Args) (first string, found bool) {
	for name := range args {
		declared := slices.ContainsFunc(action.Params, func(p runtime.Param) bool { return p.Name == name })
		if !declared && (!found || name < first) {
			first, found = name, true
		}
	}
	return first, found
}

// missed reports whether a required argument that the request does not have
// would have been seen if it were there. Some APIs take one action by GET with a
// query and by POST with a body: outside the path an argument can be missed by
// the action's own method only. A body that is not read tells nothing.
func missed(action *runtime.Action, p *runtime.Param, req *runtime.Request, strict bool) bool {
	switch own := req.Target.Method == action.HTTP.Method; p.In {
	case runtime.InPath:
		return true
	case runtime.InQuery:
		return own
	case runtime.InBody:
		return own && strict && req.BodyMode() != "streamed"
	}
	return false
}

// hasType is strict: what stands in a request is not brought to its type here.
func hasType(t runtime.ParamType, v any) bool {
	switch v.(type) {
	case string:
		return t == runtime.TypeString
	case bool:
		return t == runtime.TypeBoolean
	case []any:
		return t == runtime.TypeArray
	case map[string]any:
		return t == runtime.TypeObject
	}
	if t != runtime.TypeInteger && t != runtime.TypeNumber {
		return false
	}
	_, complaint := coerceNumber(t, v)
	return complaint == ""
}

// built completes the arguments of a request that kimbap builds itself, and builds it. A
// program gets none.
func (s *Set) built(action *runtime.Action, given runtime.Args) (runtime.Args, *runtime.Built, error) {
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
		if err := settle(action, &action.Params[i], args); err != nil {
			return nil, nil, err
		}
		toTexts(action, &action.Params[i], args)
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
	return args, built, s.recognise(action, args, built)
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

// settle brings one argument to its type, adds its default, and judges it.
func settle(action *runtime.Action, p *runtime.Param, args runtime.Args) error {
	v, given := args[p.Name]
	if !given {
		if p.Default != nil {
			args[p.Name] = p.Default
		} else if p.Required && (p.Split == "" || slices.Contains(holes(p.Split), p.Name)) {
			return invalid(action, p.Name, "is required")
		}
		return nil
	}
	if v == nil || isFile(action, p, v) { // null is left for what may be null
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

// isFile reports whether a value is a file for a part of a multipart body,
// {filename, content or base64}, which an argument of type string or object takes, but none
// whose text the service bounds.
func isFile(action *runtime.Action, p *runtime.Param, v any) bool {
	return hasFile(v) && p.In == runtime.InBody && action.HTTP != nil && action.HTTP.BodyType == "multipart" &&
		(p.Type == runtime.TypeString || p.Type == runtime.TypeObject) && p.Enum == nil && p.Pattern == nil
}
