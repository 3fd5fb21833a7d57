// Package recognised puts what the classifier found a request to be into the request, for
// every surface in the same way: the action, its arguments, and what else some server could
// take the request for. A surface that left the last out would have policy judge less than may
// happen.
//
// It judges nothing. Start reading at [As].
package recognised

import (
	"fmt"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// As makes a request what it was recognised as. The match is the request's then.
func As(req *runtime.Request, m classifier.Match) {
	req.Action, req.Args, req.Query, req.Astray = runtime.Ref(m.Action), m.Args, m.Query, m.Astray
	req.Others = Others(m)
}

// Others are the other readings of a match; nil for nearly every one.
func Others(m classifier.Match) []runtime.Other {
	var out []runtime.Other
	for _, o := range m.Others {
		out = append(out, runtime.Other{Action: runtime.Ref(o.Action), Target: o.Target, Args: o.Args, Query: o.Query, Astray: o.Astray})
	}
	return out
}

// None is the error of a request to the host of a service that no action covers. A target with
// an encoded slash is often covered but for that.
func None(authority, target string) *runtime.Error {
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Reason: runtime.ReasonUnmatched, Stage: runtime.StageSurface,
		Msg:  fmt.Sprintf("%s belongs to a service, but none of its actions covers this request", authority),
		Hint: "see which requests are covered with `kimbap actions list`, or add an action to the service file",
	}
	if classifier.EncodedSlash(target) {
		e.Msg += ", whose path has an encoded slash"
		e.Hint = "actions take %2F and %5C in a name with `allow_slash: true` in the service file"
	}
	return e
}

// SayNone is [None] as a text, for those who ask what would become of a request.
func SayNone(authority, target string) string {
	e := None(authority, target)
	return fmt.Sprintf("%s (%s); %s", e.Msg, e.Reason, e.Hint)
}
