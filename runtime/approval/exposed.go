package approval

import (
	"fmt"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
)

// exposed reports whether a secret argument stands in a caller's own request where it is not read
// back from: in another place than its own, or among those that no argument is declared for.
func exposed(call *runtime.Call, p *runtime.Param) bool {
	req := call.Request
	_, found := call.Args[p.Name]
	switch {
	case req.Raw == nil:
		return false
	case slices.Contains(req.Astray, p.Name):
		return true
	case found || p.Name != call.Action.Rest:
		return false
	case p.In == runtime.InQuery:
		return len(req.Query) > 0
	}
	return req.Raw.Body != nil
}

// exposedSecret refuses a request with such a one: a person would be shown it as anything else
// that is asked.
func exposedSecret(action runtime.Ref, name string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonAmbiguousParameter,
		Msg:  fmt.Sprintf("the secret argument %s of %s is not where it could be hidden from whoever decides about this request", name, action),
		Hint: "send it in its place (kimbap actions describe " + string(action) + "), or make the request with kimbap call",
	}
}
