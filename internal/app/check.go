package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// CheckKey tries the linked credential with one read: the service's first
// action that is a low-risk GET and needs no argument. It returns the action
// and "" when the upstream took the key.
func (a *App) CheckKey(ctx context.Context, service string) (action, problem string) {
	s, ok := a.Services().Service(service)
	if !ok {
		return "", ""
	}
	for _, candidate := range s.Actions {
		if !readsWithoutArguments(candidate) {
			continue
		}
		caller, done, err := a.trying(ctx, candidate.Ref)
		if err != nil {
			return string(candidate.Ref), runtime.AsError(err).Msg
		}
		answer := &Answer{}
		err = a.pipeline.Do(ctx, &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: caller, Action: candidate.Ref, Unattended: true,
		}, answer)
		done()
		switch {
		case err != nil:
			return string(candidate.Ref), runtime.AsError(err).Msg
		case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
			return string(candidate.Ref), "the service answered " + strconv.Itoa(answer.Status) + ": it does not accept this key"
		case answer.Status >= 400:
			return string(candidate.Ref), "the service answered " + strconv.Itoa(answer.Status)
		}
		return string(candidate.Ref), refusedInBody(answer.Body)
	}
	return "", ""
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
