package draft

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// Tunnel is the scheme of a tunnel's target.
const Tunnel = "tcp"

// Enclose makes of a request to a host without a service what the proxy judges of it: over https
// the opening of a tunnel, and nothing of what goes through, unless tunnels are looked into as
// proxy.intercept: all has it. Over http it stays as it is.
func Enclose(req *runtime.Request, intercepted bool) {
	t := req.Target
	if t.Scheme != "https" || intercepted && !runtime.RawPort(t.Authority) {
		return
	}
	req.Target = runtime.Target{Scheme: Tunnel, Authority: t.Authority, Method: http.MethodConnect}
	req.Raw = &runtime.Raw{Header: http.Header{}}
	req.Action = runtime.ForeignAction(t.Authority, req.Raw)
	req.Document, req.Parsed = nil, false
}

// Opaque is a rule about what a tunnel does not show; see [policy.Opaque].
type Opaque struct{ policy.Opaque }

// Opaque lists the rules about what nobody sees of tunnels to hosts without a service.
func (d *Policy) Opaque() (out []Opaque) {
	if d.all {
		return nil
	}
	for _, s := range d.policy.Opaque(d.set.Table().Intercepts) {
		out = append(out, Opaque{s})
	}
	return out
}

// String says which rule it is, what becomes of it and what to do.
func (s *Opaque) String() string {
	does := "it does not apply to them"
	if s.Stops {
		does = "it denies them"
	}
	return fmt.Sprintf("%s:%d: rule %s: looks at %s, which kimbap does not see in tunnels to https hosts without a service: %s; "+
		"set proxy.intercept: all, or narrow the match (service, host, risk)", s.File, s.Line, s.Rule, strings.Join(s.Looks, ", "), does)
}
