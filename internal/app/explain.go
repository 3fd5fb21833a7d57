package app

import (
	"context"

	"github.com/kimbap-run/kimbap/internal/draft"
	"github.com/kimbap-run/kimbap/internal/explain"
	"github.com/kimbap-run/kimbap/runtime"
)

// Explanation is what kimbap would do with a request, and why. Nothing is sent.
type Explanation = explain.Explanation

// ReadAs is a reading of it that decided; see [draft.ReadAs].
type ReadAs = draft.ReadAs

// Explain follows method and URL through recognition, policy and credential.
func (a *App) Explain(ctx context.Context, method, rawURL string) (*Explanation, error) {
	e := explain.Explainer{Services: a.services, Policy: a.policy, Vault: a.vault, Locked: a.Locked, Clock: a.o.Clock, Who: a.asked, InterceptAll: a.interceptsAll()}
	return e.Explain(ctx, method, rawURL)
}

// asked is who is asked about: the token of KIMBAP_TOKEN, else the owner's
// programs, in the tenant that was named.
func (a *App) asked(ctx context.Context) (runtime.Principal, error) {
	if a.env["KIMBAP_TOKEN"] != "" {
		caller, err := a.Caller(ctx)
		if err != nil {
			return runtime.Principal{}, err
		}
		return a.identity.Identify(ctx, caller)
	}
	me, err := a.identity.Identify(ctx, a.Local())
	me.Tenant = a.tenant
	return me, err
}
