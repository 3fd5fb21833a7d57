// Package keytrial tries a key with one read of its service, before it is stored or after.
//
// It tries with nothing but a low-risk GET that needs no argument, and goes through the pipeline:
// policy decides on it, and the trail has it. A service without such an action is not tried.
//
// Start reading at [Try].
package keytrial

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kimbap-run/kimbap/internal/call"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
)

// Result is how trying a key went.
type Result struct {
	Action  string // that was tried, "" when there is none to try
	Problem string // what came of it, "" when the upstream took the key
	Refused bool   // the upstream said that the key itself is no good
}

// Unstored is a vault in which one credential has another value, for some hosts.
type Unstored struct {
	Next  runtime.Vault
	Ref   string
	Value runtime.Secret
	Hosts []string
}

var _ runtime.Vault = Unstored{}

// Credential implements [runtime.Vault].
func (u Unstored) Credential(ctx context.Context, tenant runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if auth == nil || auth.Ref != u.Ref {
		return u.Next.Credential(ctx, tenant, auth)
	}
	c := runtime.Credential{Name: u.Ref, Value: u.Value, Authorities: u.Hosts}
	if auth.Type != runtime.AuthBasic || auth.UsernameRef == "" {
		return c, nil
	}
	user, err := u.Next.Credential(ctx, tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: auth.UsernameRef})
	if err == nil && !user.Found() {
		return runtime.Credential{}, vault.NoUsername(tenant, auth, user.Expired)
	}
	c.Username = user.Value
	c.Authorities = slices.DeleteFunc(slices.Clone(u.Hosts), func(h string) bool { return !user.Allows(h) })
	return c, err
}

// As says who does an action for the operator who tries a key, until done is called.
type As func(ctx context.Context, action runtime.Ref) (caller runtime.Caller, done func(), err error)

// Try does the service's first action that is a low-risk GET and needs no argument, through the
// pipeline like any other.
func Try(ctx context.Context, s *services.Service, p *runtime.Pipeline, as As) Result {
	for _, candidate := range s.Actions {
		if !readsWithoutArguments(candidate) {
			continue
		}
		caller, done, err := as(ctx, candidate.Ref)
		if err != nil {
			return Result{Action: string(candidate.Ref), Problem: runtime.AsError(err).Msg}
		}
		answer := &call.Answer{}
		err = p.Do(ctx, &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: caller, Action: candidate.Ref, Unattended: true,
		}, answer)
		if err == nil {
			err = answer.Decode()
		}
		done()
		t := Result{Action: string(candidate.Ref)}
		switch {
		case runtime.CodeOf(err) == runtime.CodeNoCredential:
			t.Problem = runtime.AsError(err).Msg + ": " + runtime.AsError(err).Hint
		case err != nil:
			t.Problem = runtime.AsError(err).Msg
		default:
			t.Refused, t.Problem = judged(answer)
		}
		return t
	}
	return Result{}
}

// judged says what an answer tells of the key: whether it is not accepted, and what the
// problem is.
func judged(answer *call.Answer) (refused bool, problem string) {
	switch {
	case answer.Status == http.StatusUnauthorized:
		return true, "the service answered 401: it does not accept this key"
	case answer.Status == http.StatusForbidden: // the key may be good for other things
		return false, "the service answered 403: this key may not do that"
	case answer.Status >= 300: // a redirect may lead to a page for signing in
		return false, "the service answered " + strconv.Itoa(answer.Status)
	}
	problem = refusedInBody(answer.Body)
	return problem != "", problem
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
