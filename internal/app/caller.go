package app

import (
	"context"
	"fmt"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// Operator is the owner at the terminal, acting for the tenant of this App, or
// whose [App.seat] this is.
func (a *App) Operator() runtime.Principal {
	if a.seated != nil {
		return *a.seated
	}
	me := identity.Operator(a.o.UID)
	me.Tenant = a.tenant
	return me
}

// Local is the caller that the owner's own commands are.
func (a *App) Local() runtime.Caller {
	return runtime.Caller{Peer: runtime.Peer{Owner: true, Known: true, UID: a.o.UID}}
}

// Caller is who a command acts as: the token of KIMBAP_TOKEN, else the owner. A
// tenant that was asked for by name must be the caller's: no command acts as
// another tenant than it was told, and only a token is of another than the default.
func (a *App) Caller(ctx context.Context) (runtime.Caller, error) {
	caller := a.Local()
	caller.Token = runtime.NewSecret(a.env["KIMBAP_TOKEN"])
	if a.o.Tenant == "" || a.o.Tenant == runtime.DefaultTenant && caller.Token.Empty() {
		return caller, nil
	}
	me, err := a.identity.Identify(ctx, caller)
	if err == nil && me.Tenant != a.tenant {
		err = &runtime.Error{
			Code: runtime.CodeUnauthenticated, Reason: runtime.ReasonNoToken, Stage: runtime.StageIdentify,
			Msg:  fmt.Sprintf("this acts as an agent, and KIMBAP_TOKEN holds no token of tenant %s", a.tenant),
			Hint: "export KIMBAP_TOKEN=$(kimbap --tenant " + string(a.tenant) + " token create --agent me --scope '*')",
		}
	}
	return caller, err
}

// actsAs is the Caller's principal.
func (a *App) actsAs(ctx context.Context) (runtime.Principal, error) {
	caller, err := a.Caller(ctx)
	if err != nil {
		return runtime.Principal{}, err
	}
	return a.identity.Identify(ctx, caller)
}
