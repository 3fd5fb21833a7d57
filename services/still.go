package services

import (
	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
)

// JudgedBody is the largest body that decides what a request is, or that a rule may look at,
// in bytes, as in the proxy.
const JudgedBody = 1 << 20

// still refuses a request of a caller's that has waited, for a person or to be repeated,
// and is not the action any more that it was when it came: a service that came meanwhile
// may have a route of its own for just these bytes, and a worse one. It returns what else some
// server could take it for now.
func (s *Set) still(action *runtime.Action, req *runtime.Request) ([]runtime.Other, error) {
	t := req.Target
	in := classifier.Input{Scheme: t.Scheme, Authority: t.Authority, Method: t.Method, Target: t.Path, Header: req.Raw.Header}
	if req.Followed {
		in.Unfilled = OwnFields(in.Header)
	}
	match, err := s.table.Match(in)
	if err == nil && (match.NeedBody || len(match.Others) > 0 && req.Parsed) { // whose arguments may stand there
		if in.Body, err = keptBody(req.Raw); err == nil {
			match, err = s.table.Match(in)
		}
	}
	if err != nil || runtime.Ref(match.Action) != action.Ref {
		return nil, stale("to the services as they are now this request is not " + string(action.Ref) + " any more")
	}
	return recognised.Others(match), nil
}

// keptBody is the body of a request as far as it is in memory, which is all of one that
// decided.
func keptBody(raw *runtime.Raw) (*classifier.Body, error) {
	text, whole := raw.Buffered()
	if !whole || len(text) > JudgedBody {
		return nil, runtime.ErrBodyTooLarge
	}
	text, err := classifier.Unpack(raw.Header, text, JudgedBody)
	if err != nil {
		return nil, err
	}
	return classifier.ParseBody(raw.Header.Get("Content-Type"), "", text)
}
