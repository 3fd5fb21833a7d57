package services

import (
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
)

// Readings are what else some server could take a request for that was found to be an action
// with these arguments, each with its own action. Their arguments are as they stand: a server
// that reads a request so has not asked the service file whether they are any good.
func (s *Set) Readings(req *runtime.Request, found *runtime.Action, args runtime.Args, others []runtime.Other) ([]runtime.Reading, error) {
	var out []runtime.Reading
	for _, o := range others {
		action, ok := s.Action(string(o.Action))
		if !ok {
			return nil, stale("some servers could take this request for " + string(o.Action) + ", which is not installed any more")
		}
		as := *req
		as.Action, as.Query, as.Astray, as.Others = o.Action, o.Query, o.Astray, nil
		if as.Args = withoutEmpty(action, o.Args); as.Target.Path != "" {
			as.Target.Path = o.Target
		}
		fillUnread(&as, action, found, args)
		out = append(out, runtime.Reading{Request: &as, Action: action, Args: as.Args})
	}
	return out, nil
}

// fillUnread fills in what nobody reads back from a request: the body is the same in every
// reading, so of the same action its arguments are, too. Of others, and of any members that
// are spread over the query, nobody can say what they are.
func fillUnread(as *runtime.Request, action, found *runtime.Action, args runtime.Args) {
	if action.HTTP == nil || found.HTTP == nil {
		return
	}
	whole := func(spec *runtime.HTTPSpec) bool { return spec.BodyType == "multipart" || spec.BodyType == "raw" }
	for i := range action.Params {
		p := &action.Params[i]
		if _, read := as.Args[p.Name]; read || slices.Contains(as.Astray, p.Name) {
			continue
		}
		switch v, given := args[p.Name]; {
		case action.Ref == found.Ref && p.In == runtime.InBody:
			if given {
				as.Args[p.Name] = v
			}
		case as.Raw == nil && (p.Name == action.Rest || p.Body && (whole(action.HTTP) || whole(found.HTTP))):
			as.Astray = append(slices.Clip(as.Astray), p.Name)
		}
	}
}
