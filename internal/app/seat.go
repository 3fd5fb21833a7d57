package app

import (
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/identity"
)

// seat is this App for an operator who comes in over the network: the same stages,
// in that operator's name and for its tenant alone. It is for the methods of
// operators; it is neither opened nor closed, and serves nobody.
func (a *App) seat(who runtime.Principal) (*App, error) {
	operator, err := identity.AsOperator(who)
	if err != nil {
		return nil, err
	}
	return &App{
		o: a.o, home: a.home, env: a.env, config: a.config, tenant: operator.Tenant, seated: &operator,
		store: a.store, index: a.index, shared: a.shared, vault: a.vault, identity: a.identity, policy: a.policy, services: a.services,
		approvals: a.approvals, trail: a.trail, self: a.self, neighbours: a.neighbours, connector: a.connector, forms: a.forms, waiting: a.waiting,
	}, nil
}
