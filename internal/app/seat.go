package app

import (
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// seat is this App for an operator who comes in over the network: the same core, in that
// operator's name and for its tenant alone. It is for the methods of operators; it is neither
// opened nor closed, and serves nobody.
func (a *App) seat(who runtime.Principal) (*App, error) {
	operator, err := identity.AsOperator(who)
	if err != nil {
		return nil, err
	}
	return &App{core: a.core, tenant: operator.Tenant, seated: &operator}, nil
}
