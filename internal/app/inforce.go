package app

import (
	"context"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/services"
)

// Which installed services are in force, and taking them out and in.

// RemoveService removes an installed service file.
func (a *App) RemoveService(ctx context.Context, name string) error {
	s, ok := a.Services().Service(name)
	if !ok && (a.fault != nil && services.Installed(a.home.Services(), name) || slices.Contains(a.DisabledServices(), name)) {
		s, ok = &services.Service{Name: name}, true // it may be what is broken
	}
	if !ok {
		return a.unknownService(name)
	}
	unlock, err := a.home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := a.serviceEvent(ctx, "service.remove", s.Name, s.Digest); err != nil {
		return err
	}
	if err := services.Remove(a.home.Services(), s.Name); err != nil {
		return err
	}
	if locked, err := a.home.ReadPins(); err == nil && locked.Forget(s.Name) {
		if err := a.home.WritePins(locked); err != nil {
			return err
		}
	}
	if a.fault != nil {
		return nil // the next command tells what is still wrong
	}
	return a.reloadServices()
}

// DisableService takes a service out of force; its file and its key stay. Its
// hosts are then hosts without a service.
func (a *App) DisableService(ctx context.Context, name string) error {
	if s, ok := a.Services().Service(name); ok {
		name = s.Name
	}
	unlock, err := a.home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !services.Installed(a.home.Services(), name) {
		return a.unknownService(name)
	}
	if err := a.serviceEvent(ctx, "service.disable", name, ""); err != nil {
		return err
	}
	if err := services.Disable(a.home.Services(), name); err != nil {
		return err
	}
	if a.fault != nil {
		return nil
	}
	return a.reloadServices()
}

// EnableService puts a disabled service in force again.
func (a *App) EnableService(ctx context.Context, name string) error {
	unlock, err := a.home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !slices.Contains(services.Disabled(a.home.Services()), name) {
		if services.Installed(a.home.Services(), name) {
			return nil
		}
		return a.unknownService(name)
	}
	if err := a.serviceEvent(ctx, "service.enable", name, ""); err != nil {
		return err
	}
	if err := services.Enable(a.home.Services(), name); err != nil {
		return runtime.Invalid(err, "kimbap service list")
	}
	return a.reloadServices()
}

// DisabledServices are the names of services that are installed and not in force.
func (a *App) DisabledServices() []string { return services.Disabled(a.home.Services()) }

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
