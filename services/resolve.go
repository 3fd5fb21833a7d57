package services

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
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
	found, others, err := runtime.Resolved{Action: action}, req.Others, error(nil)
	switch {
	case req.Raw == nil:
		found.Args, found.Built, err = s.built(action, req.Args, req.Settled)
		if err == nil && found.Built != nil {
			others, err = s.recognise(action, found.Args, found.Built)
		}
	case req.Waited:
		if others, err = s.still(action, req); err != nil {
			break
		}
		fallthrough
	default:
		found.Args, err = s.received(action, req)
	}
	if err == nil && len(others) > 0 {
		found.Others, err = s.Readings(req, action, found.Args, others)
	}
	if err != nil {
		return runtime.Resolved{}, err
	}
	return found, nil
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
