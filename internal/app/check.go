package app

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/connector"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
)

// keyTrial is how trying a key went.
type keyTrial struct {
	action  string // that was tried, "" when there is none to try
	problem string // what came of it, "" when the upstream took the key
	refused bool   // the upstream said that the key itself is no good
}

// CheckKey tries the linked credential with one read. It returns the action and
// "" when the upstream took the key.
func (a *App) CheckKey(ctx context.Context, service string) (action, problem string) {
	s, ok := a.Services().Service(service)
	if !ok {
		return "", ""
	}
	t := a.try(ctx, s, a.pipeline)
	return t.action, t.problem
}

// tryKey is CheckKey for a value that is not stored yet.
func (a *App) tryKey(ctx context.Context, s *services.Service, value runtime.Secret, hosts []string) (keyTrial, error) {
	o := a.stages()
	o.Vault = connector.Still{Vault: unstored{a.vault, s.Auth.Ref, value, hosts}}
	p, err := runtime.New(o)
	if err != nil {
		return keyTrial{}, err
	}
	return a.try(ctx, s, p), nil
}

// unstored is a vault in which one credential has another value.
type unstored struct {
	next  runtime.Vault
	ref   string
	value runtime.Secret
	hosts []string
}

// Credential implements [runtime.Vault].
func (u unstored) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if auth == nil || auth.Ref != u.ref {
		return u.next.Credential(ctx, tenant, auth)
	}
	c := runtime.Credential{Name: u.ref, Value: u.value, Authorities: u.hosts}
	if auth.Type != runtime.AuthBasic || auth.UsernameRef == "" {
		return c, nil
	}
	user, err := u.next.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: auth.UsernameRef})
	if err == nil && !user.Found() {
		return runtime.Credential{}, vault.NoUsername(auth)
	}
	c.Username = user.Value
	c.Authorities = slices.DeleteFunc(slices.Clone(u.hosts), func(h string) bool { return !user.Allows(h) })
	return c, err
}

// try does the service's first action that is a low-risk GET and needs no argument.
func (a *App) try(ctx context.Context, s *services.Service, p *runtime.Pipeline) keyTrial {
	for _, candidate := range s.Actions {
		if !readsWithoutArguments(candidate) {
			continue
		}
		caller, done, err := a.trying(ctx, candidate.Ref)
		if err != nil {
			return keyTrial{action: string(candidate.Ref), problem: runtime.AsError(err).Msg}
		}
		answer := &Answer{}
		err = p.Do(ctx, &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: caller, Action: candidate.Ref, Unattended: true,
		}, answer)
		if err == nil {
			err = answer.Decode()
		}
		done()
		t := keyTrial{action: string(candidate.Ref)}
		switch {
		case runtime.CodeOf(err) == runtime.CodeNoCredential:
			t.problem = runtime.AsError(err).Msg + ": " + runtime.AsError(err).Hint
		case err != nil:
			t.problem = runtime.AsError(err).Msg
		case answer.Status == http.StatusUnauthorized:
			t.refused, t.problem = true, "the service answered 401: it does not accept this key"
		case answer.Status == http.StatusForbidden: // the key may be good for other things
			t.problem = "the service answered 403: this key may not do that"
		case answer.Status >= 400:
			t.problem = "the service answered " + strconv.Itoa(answer.Status)
		default:
			t.problem = refusedInBody(answer.Body)
			t.refused = t.problem != ""
		}
		return t
	}
	return keyTrial{}
}

// trying is who tries an action for the operator: the owner's own program, and in
// another tenant than the default one, which only a token is of, a token for this.
func (a *App) trying(ctx context.Context, action runtime.Ref) (runtime.Caller, func(), error) {
	if a.tenant == runtime.DefaultTenant {
		return a.Local(), func() {}, nil
	}
	token, info, err := a.CreateToken(ctx, TokenGrant{Agent: "local", Scopes: []string{string(action)}, TTL: time.Minute})
	if err != nil {
		return runtime.Caller{}, nil, err
	}
	return runtime.Caller{Token: token}, func() { _, _ = a.RevokeToken(context.WithoutCancel(ctx), info.ID) }, nil
}

func readsWithoutArguments(action *runtime.Action) bool {
	if action.Risk != runtime.RiskLow || action.HTTP == nil || action.HTTP.Method != http.MethodGet || strings.Contains(action.HTTP.Path, "*") {
		return false
	}
	for _, p := range action.Params {
		if p.Required {
			return false
		}
	}
	return true
}

// refusedInBody finds a refusal that came with a 200: {"ok": false, "error": …},
// as Slack answers.
func refusedInBody(body []byte) string {
	var said struct {
		OK    *bool  `json:"ok"`
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.OK == nil || *said.OK {
		return ""
	}
	return "the service answered ok: false, " + said.Error
}
