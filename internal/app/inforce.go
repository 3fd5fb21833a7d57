package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
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
func (a *App) InForce(name string) (*services.Service, error) {
	if s, found := a.Services().Service(name); found {
		return s, nil
	}
	return nil, a.unknownService(name)
}

// Bring are the commands that bring the services which words mean and that are not in
// force.
func (a *App) Bring(words []string) []string {
	var out []string
	for _, word := range words {
		if _, fix := a.missing(word); fix != "" && !slices.Contains(out, fix) {
			out = append(out, fix)
		}
	}
	return out
}

// missing finds the service that a word of a script means and that is disabled here, or
// in the catalogue and not installed, and the command that brings it; "" for none.
func (a *App) missing(word string) (service, fix string) {
	means := func(name string) bool { return name == word || sandbox.Camel(name) == word }
	if off := a.DisabledServices(); slices.ContainsFunc(off, means) {
		name := off[slices.IndexFunc(off, means)]
		return name, "kimbap service enable " + name
	}
	names := catalog.Names()
	if i := slices.IndexFunc(names, means); i >= 0 {
		if _, installed := a.Services().Service(names[i]); !installed {
			return names[i], "kimbap service install " + names[i]
		}
	}
	return "", ""
}

// unknownService is the error for a name that is not in force: it is disabled, not
// installed, or not even shipped.
func (a *App) unknownService(name string) error {
	e := &runtime.Error{Code: runtime.CodeUnknownAction, Reason: runtime.ReasonNotFound}
	names := catalog.Names()
	switch {
	case slices.Contains(a.DisabledServices(), name):
		e.Msg, e.Hint = fmt.Sprintf("the service %q is disabled", name), "kimbap service enable "+name
		return e
	case slices.Contains(names, name):
		e.Msg, e.Hint = fmt.Sprintf("the service %q is not installed", name), "kimbap service install "+name
		return e
	}
	e.Msg, e.Hint = fmt.Sprintf("there is no service %q", name), "kimbap service list --catalog"
	for _, s := range a.Services().Services() {
		names = append(names, s.Name)
	}
	if near := runtime.Nearest(name, names); near != "" {
		e.Msg += fmt.Sprintf("; did you mean %s?", near)
	}
	return e
}
