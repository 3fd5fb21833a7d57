package installer

import (
	"context"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Which installed services are in force, and taking them out and in.

// Remove removes an installed service file.
func (k Keeper) Remove(ctx context.Context, name string) error {
	s, ok := k.Services.Current().Service(name)
	if !ok && (k.Broken && services.Installed(k.Home.Services(), name) || slices.Contains(k.Disabled(), name)) {
		s, ok = &services.Service{Name: name}, true // it may be what is broken
	}
	if !ok {
		return k.Unknown(name)
	}
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := k.Record(ctx, "service.remove", s.Name, s.Digest); err != nil {
		return err
	}
	if err := services.Remove(k.Home.Services(), s.Name); err != nil {
		return err
	}
	if locked, err := k.Home.ReadPins(); err == nil && locked.Forget(s.Name) {
		if err := k.Home.WritePins(locked); err != nil {
			return err
		}
	}
	if k.Broken {
		return nil // the next command tells what is still wrong
	}
	return k.Reload()
}

// Disable takes a service out of force; its file and its key stay. Its
// hosts are then hosts without a service.
func (k Keeper) Disable(ctx context.Context, name string) error {
	if s, ok := k.Services.Current().Service(name); ok {
		name = s.Name
	}
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !services.Installed(k.Home.Services(), name) {
		return k.Unknown(name)
	}
	if err := k.Record(ctx, "service.disable", name, ""); err != nil {
		return err
	}
	if err := services.Disable(k.Home.Services(), name); err != nil {
		return err
	}
	if k.Broken {
		return nil
	}
	return k.Reload()
}

// Enable puts a disabled service in force again.
func (k Keeper) Enable(ctx context.Context, name string) error {
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if !slices.Contains(services.Disabled(k.Home.Services()), name) {
		if services.Installed(k.Home.Services(), name) {
			return nil
		}
		return k.Unknown(name)
	}
	if err := k.Record(ctx, "service.enable", name, ""); err != nil {
		return err
	}
	if err := services.Enable(k.Home.Services(), name); err != nil {
		return runtime.Invalid(err, "kimbap service list")
	}
	return k.Reload()
}

// Disabled are the names of services that are installed and not in force.
func (k Keeper) Disabled() []string { return services.Disabled(k.Home.Services()) }
