package services

import (
	"github.com/kimbap-run/kimbap/runtime"
)

// Readings are what else some server could take a request for, each with its action. Their
// arguments are as they stand: a server that reads a request so has not asked the service file
// whether they are any good.
func (s *Set) Readings(req *runtime.Request, others []runtime.Other) ([]runtime.Reading, error) {
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
		out = append(out, runtime.Reading{Request: &as, Action: action, Args: as.Args})
	}
	return out, nil
}
