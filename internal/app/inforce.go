package app

import (
	"context"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/services"
)

// Which installed services are in force, and taking them out and in.

// KeyOfOnly names the stored key that no service in force uses but this one, "" where there
// is none, or where the vault cannot say. What a disabled service uses is not known.
func (a *App) KeyOfOnly(ctx context.Context, name string) string {
	one, ok := a.Services().Service(name)
	if !ok || one.Auth.Ref == "" {
		return ""
	}
	for _, s := range a.Services().Services() {
		if s.Name != one.Name && s.Auth.Ref == one.Auth.Ref {
			return ""
		}
	}
	stored, err := a.Secrets(ctx)
	if err != nil || !slices.ContainsFunc(stored, func(s Stored) bool { return s.Name == one.Auth.Ref }) {
		return ""
	}
	return one.Auth.Ref
}

// RemoveService removes an installed service file.
func (a *App) RemoveService(ctx context.Context, name string) error {
	return a.installer().Remove(ctx, name)
}

// DisableService takes a service out of force; its file and its key stay. Its
// hosts are then hosts without a service.
func (a *App) DisableService(ctx context.Context, name string) error {
	return a.installer().Disable(ctx, name)
}

// EnableService puts a disabled service in force again.
func (a *App) EnableService(ctx context.Context, name string) error {
	return a.installer().Enable(ctx, name)
}

// DisabledServices are the names of services that are installed and not in force.
func (a *App) DisabledServices() []string { return services.Disabled(a.home.Services()) }

// Disabled are those services by the names of their files, nil for one that cannot be read.
func (a *App) Disabled() map[string]*Service {
	out := map[string]*Service{}
	for _, name := range a.DisabledServices() {
		out[name] = nil
	}
	for _, s := range services.LoadDisabled(a.home.Services()) {
		if _, there := out[s.Name]; there {
			out[s.Name] = s
		}
	}
	return out
}

func (a *App) serviceEvent(ctx context.Context, kind, name, digest string) error {
	return a.trail.Event(ctx, a.ofService(kind, name, digest))
}

// ofService is the event of something that is done to a service.
func (a *App) ofService(kind, name, digest string) record.Event {
	return record.Event{
		Kind: kind, Principal: a.Operator().ID, Tenant: runtime.DefaultTenant,
		Fields: map[string]string{"service": name, "digest": digest},
	}
}

// fits refuses a service with which a policy in force could not be read any more, as where a
// condition names an argument that this version lacks: what runs would stay with the old
// service, and nothing would start.
func (a *App) fits(s *services.Service) error {
	others := slices.DeleteFunc(slices.Clone(a.Services().Services()), func(one *services.Service) bool { return one.Name == s.Name })
	set, err := services.NewSet(append(others, s))
	if err != nil {
		return nil // not of the rules: whoever puts it there has looked, or says so
	}
	_, before := a.rules().Read(a.Services())
	_, after := a.rules().Read(set)
	for _, t := range a.Tenants() {
		if after[t] == nil || before[t] != nil {
			continue
		}
		e := *runtime.AsError(after[t])
		e.Msg = "with this " + s.Name + " a policy in force could not be read, so all stays as it is:\n" + e.Msg
		e.Hint = "first take the condition (when) off the rule, which holds for all then, or the whole rule out where it allows; do this again; and write the condition anew"
		return &e
	}
	return nil
}

func (a *App) reloadServices() error {
	set, err := a.readServices()
	if err == nil {
		a.services.Swap(set)
	}
	return err
}

// InForce is an installed service by its name or an alias; the error says how to bring
// one that is not in force.
func (a *App) InForce(name string) (*services.Service, error) { return a.toolbox().InForce(name) }

// Bring are the commands that bring the services which words mean and that are not in
// force.
func (a *App) Bring(words []string) []string { return a.toolbox().Bring(words) }

func (a *App) unknownService(name string) error { return a.toolbox().Unknown(name) }
