// Package explain says what kimbap would do with a request, and why: which action it is, which
// rule decides, what it would take from limits, and whether its credential is stored.
//
// It sends nothing, takes nothing and opens no credential. What depends on a body it says so of;
// it has none.
//
// Start reading at [Explainer.Explain].
package explain

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/draft"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/recognised"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
)

// Explainer explains requests by what is in force. All of it is required.
type Explainer struct {
	Services *services.Live
	Policy   *policy.Live
	Vault    Vault
	Locked   func() *runtime.Error // why the vault is closed, nil while it is open
	Clock    func() time.Time
	Who      func(ctx context.Context) (runtime.Principal, error) // would make the request

	InterceptAll bool // tunnels to hosts without a service are looked into
}

// Vault lists what is stored, without its values.
type Vault interface {
	List(ctx context.Context, tenant runtime.Tenant) ([]vault.Entry, error)
}

// Explanation is what kimbap would do with a request, and why. Nothing is sent.
type Explanation struct {
	Method     string        `json:"method"`
	URL        string        `json:"url"`
	Host       string        `json:"host"` // intercepted | passed | refused
	Service    string        `json:"service,omitempty"`
	Action     runtime.Ref   `json:"action,omitempty"`
	Risk       runtime.Risk  `json:"risk,omitempty"`
	Source     string        `json:"source,omitempty"`
	Args       runtime.Args  `json:"args,omitempty"`
	Effect     string        `json:"effect,omitempty"`
	Rule       string        `json:"rule,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Steps      []policy.Step `json:"steps,omitempty"`
	ReadAs     *draft.ReadAs `json:"read_as,omitempty"` // the reading of its path that decided, if not the first
	Credential string        `json:"credential"`
	Username   string        `json:"username,omitempty"` // what stands for the user name that goes with a stored credential
	Refused    string        `json:"refused,omitempty"`
	NeedsBody  bool          `json:"needs_body,omitempty"` // the answer depends on the body
	Tunnel     bool          `json:"tunnel,omitempty"`     // what is judged is the opening of a tunnel, of which nothing else is seen

	Limits []runtime.Limit `json:"limits,omitempty"` // what it would take from
}

// Explain follows method and URL through recognition, policy and credential.
func (e Explainer) Explain(ctx context.Context, method, rawURL string) (*Explanation, error) {
	u, err := url.Parse(rawURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("%q is not an http or https URL", rawURL),
			Hint: "kimbap explain GET https://api.github.com/user",
		}
	}
	x := &Explanation{Method: method, URL: rawURL, Host: "passed", Credential: "none"}
	authority, err := classifier.CanonicalAuthority(u.Host, runtime.DefaultPort(u.Scheme))
	if err != nil {
		x.Host, x.Refused = "refused", err.Error()
		return x, nil
	}
	target := draft.Target(u, rawURL)
	raw := &runtime.Raw{Header: http.Header{}}
	req := &runtime.Request{
		Surface: runtime.SurfaceProxy, Action: runtime.ForeignAction(authority, raw), Raw: raw,
		Target: runtime.Target{Scheme: u.Scheme, Authority: authority, Method: method, Path: target},
	}
	if draft.MayHaveBody(method) {
		req.Raw.Body = http.NoBody // there is one, and nobody has read it
	}
	switch e.Services.Current().Table().Host(u.Scheme, authority) {
	case classifier.HostInsecure:
		x.Host, x.Refused = "refused", "a service owns this host over https only (insecure_scheme)"
		return x, nil
	case classifier.HostOwned:
		x.Host = "intercepted"
		if done := e.recognise(x, req); done {
			return x, nil
		}
	default:
		draft.Enclose(req, e.InterceptAll)
		x.Tunnel = req.Target.Scheme == draft.Tunnel
	}
	return x, e.decide(ctx, x, req)
}

// recognise fills in the action; true when there is none.
func (e Explainer) recognise(x *Explanation, req *runtime.Request) bool {
	match, err := e.Services.Current().Table().Match(classifier.Input{
		Scheme: req.Target.Scheme, Authority: req.Target.Authority,
		Method: req.Target.Method, Target: req.Target.Path, Header: http.Header{},
	})
	switch {
	case err != nil:
		x.Refused = err.Error()
	case match.NeedBody:
		x.Service, x.NeedsBody = match.Service, true
		x.Refused = "the action depends on the body of the request"
	case match.Action == "":
		x.Refused = recognised.SayNone(req.Target.Authority, req.Target.Path)
	default:
		x.Service = match.Service
		recognised.As(req, match)
		return false
	}
	return true
}

// decide fills in what policy says of the action, and what stands for its credential.
func (e Explainer) decide(ctx context.Context, x *Explanation, req *runtime.Request) error {
	me, err := e.Who(ctx)
	if err != nil {
		return err
	}
	found, err := e.Services.Resolve(req)
	if err != nil {
		x.Refused = runtime.AsError(err).Msg
		return nil
	}
	action, args := found.Action, found.Args
	question := runtime.Question{Principal: &me, Action: action, Args: args, Request: req, Now: e.Clock()}
	rules := scoped{e.Policy}
	verdict, as := draft.Decide(rules, question, found.Others)
	x.ReadAs = as
	x.Action, x.Risk, x.Source, x.Args = action.Ref, action.Risk, action.Source, args
	x.NeedsBody, x.Limits = verdict.NeedBody, verdict.Limits
	x.Effect, x.Rule, x.Reason, x.Steps = string(verdict.Effect), verdict.Rule, verdict.Reason, rules.Explain(question)
	if action.Auth.Ref == "" {
		return nil
	}
	if why := e.Locked(); why != nil {
		x.Credential = fmt.Sprintf("%s: requests are refused (%s): %s", action.Auth.Ref, why.Code, why.Msg)
		return nil
	}
	stored, err := e.Vault.List(ctx, me.Tenant)
	var good bool
	if x.Credential, good = e.stands(stored, action.Auth.Ref, req.Target.Authority, x.Service); !good {
		x.Credential += ", the caller's own passes"
	} else if user := action.Auth.UsernameRef; user != "" {
		if x.Username, good = e.stands(stored, user, req.Target.Authority, x.Service); !good {
			x.Username += ", so requests are refused (kimbap vault set " + user + ")"
		}
	}
	return err
}

// scoped are rules as a request meets them: of an action that the principal's scopes do not
// cover none is asked.
type scoped struct{ draft.Rules }

func (s scoped) Decide(q runtime.Question) runtime.Verdict {
	if v := q.Principal.Beyond(q.Action.Ref); v != nil {
		return *v
	}
	return s.Rules.Decide(q)
}

func (s scoped) Explain(q runtime.Question) []policy.Step {
	if q.Principal.Beyond(q.Action.Ref) != nil {
		return nil
	}
	return s.Rules.Explain(q)
}

// stands says what stands in the vault under a name; whether it is good.
func (e Explainer) stands(stored []vault.Entry, name, authority, service string) (said string, good bool) {
	i := slices.IndexFunc(stored, func(s vault.Entry) bool { return s.Name == name })
	switch {
	case i < 0:
		return name + ": not stored", false
	case stored[i].Expired(e.Clock()):
		return name + ": expired", false
	}
	said = fmt.Sprintf("%s, version %d", name, stored[i].Version)
	if !slices.Contains(stored[i].Authorities, authority) {
		said += ", not for this host (kimbap link " + service + " --rebind)"
	}
	return said, true
}
