package installer

import (
	"context"
	"errors"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Which installed services are in force, and taking them out and in.

// Remove removes an installed service file.
func (k Keeper) Remove(ctx context.Context, name string) error {
	s, ok := k.Services.Current().Service(name)
	if !ok && (k.Broken && services.Installed(k.Home.Services(), name) || slices.Contains(k.Disabled(), name)) {
		s, ok = &services.Service{Head: services.Head{Name: name}}, true // it may be what is broken
	}
	if !ok {
		return k.notHere(name)
	}
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := k.Deprive(ctx, "service.remove", s.Name, s.Digest); err != nil {
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
// hosts are then hosts without a service. One that is disabled already stays so.
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
		if slices.Contains(k.Disabled(), name) {
			return nil
		}
		return k.notHere(name)
	}
	if err := k.Deprive(ctx, "service.disable", name, ""); err != nil {
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
		return k.notHere(name)
	}
	for _, s := range services.LoadDisabled(k.Home.Services()) {
		if s.Name != name {
			continue
		}
		if err := k.Fits(s); err != nil {
			return err
		}
	}
	if err := k.Record(ctx, "service.enable", name, ""); err != nil {
		return err
	}
	if err := services.Enable(k.Home.Services(), name); err != nil {
		return runtime.Invalid(err, "kimbap service list")
	}
	return k.Reload()
}

// notHere is Unknown for who wants something done to what is installed: to install it first,
// so that it can be taken away, mends nothing.
func (k Keeper) notHere(name string) error {
	var e *runtime.Error
	err := k.Unknown(name)
	if !slices.Contains(k.Disabled(), name) && errors.As(err, &e) {
		own := *e
		own.Hint = "kimbap service list"
		return &own
	}
	return err
}

// Disabled are the names of services that are installed and not in force.
func (k Keeper) Disabled() []string { return services.Disabled(k.Home.Services()) }
