package app

import (
	"context"
	"slices"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/runner/agents"
	"github.com/kimbap-run/kimbap/internal/setup"
	"github.com/kimbap-run/kimbap/runtime"
)

// AgentChange is what becomes of one file of an agent's settings.
type AgentChange = setup.Change

// AgentState is how the settings of one agent stand.
type AgentState = setup.State

// AgentNames are all that can be set up.
func AgentNames() []string { return setup.Names() }

// agents are those of this user, and what kimbap has written for them.
func (a *App) agents() setup.Machine {
	return setup.Machine{Home: a.home, User: a.env.UserDir(), Dir: a.o.Dir}
}

// PlanAgents says what settings would be written, for the agents named, or for
// those that are on this machine. What is right already is left out.
func (a *App) PlanAgents(ctx context.Context, names []string) ([]AgentChange, error) {
	kinds, err := a.agents().Kinds(names)
	if err != nil {
		return nil, err
	}
	if err := a.settingsLead(kinds); err != nil {
		return nil, err
	}
	if err := a.TakeRoots(ctx); err != nil {
		return nil, err
	}
	vars, err := a.agentVariables(ctx)
	if err != nil {
		return nil, err
	}
	return a.agents().Plan(kinds, vars)
}

// PlanAgentsRemoval says what would be taken out again.
func (a *App) PlanAgentsRemoval(names []string) ([]AgentChange, error) {
	return a.agents().Removal(names)
}

// ApplyAgents writes what was planned, unless a file has changed since.
func (a *App) ApplyAgents(ctx context.Context, changes []AgentChange) error {
	return a.agents().Apply(ctx, changes)
}

// ForgetAgent drops what the home remembers of a file, and leaves the file alone.
func (a *App) ForgetAgent(ctx context.Context, path string) error {
	return a.agents().Forget(ctx, path)
}

// AgentStates says how all settings stand.
func (a *App) AgentStates(ctx context.Context) ([]AgentState, error) {
	vars, err := a.agentVariables(ctx)
	if err != nil {
		return nil, err
	}
	return a.agents().States(vars)
}

// settingsLead refuses settings with a proxy's URL where a token must be in it: that
// token ends with the proxy, and has no place in files of others.
func (a *App) settingsLead(kinds []agents.Kind) error {
	i := slices.IndexFunc(kinds, func(k agents.Kind) bool { return k.Folder != "" })
	if i < 0 || !a.nameless() {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "this system does not say whose a connection is: the proxy's URL holds a token that ends with the proxy, so settings of " + kinds[i].Name + " cannot name it",
		Hint: "kimbap run -- " + kinds[i].Name,
	}
}

// agentVariables are those of kimbap env, for the proxy at its configured address.
func (a *App) agentVariables(ctx context.Context) ([]runner.Variable, error) {
	ca, err := a.ShownCA(ctx) // its files are named, and nothing is signed
	if err != nil {
		return nil, err
	}
	placeholders, _, err := a.Placeholders(ctx)
	if err != nil {
		return nil, err
	}
	place := runner.Place{
		Proxy: "http://" + a.config.Current().Proxy.Listen, CA: ca.CAFile(), Bundle: ca.BundleFile(),
		Settings: a.settingsFolders()[0], Own: map[string]string{}, Placeholders: placeholders, Served: a.servedHere(),
	}
	return runner.Variables(place), a.settle(place, false)
}
