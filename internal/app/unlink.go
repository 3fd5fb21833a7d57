package app

import (
	"context"
	"fmt"
	"slices"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Unlinked is what Unlink did.
type Unlinked struct {
	Service  string   `json:"service"`
	Removed  bool     `json:"removed"`  // a credential was stored
	Services []string `json:"services"` // removed with it
	Kept     []string `json:"kept"`     // these used it too and are in force still
}

// Unlink removes the credential of a service and, of the services that use it,
// those that are the catalogue's, so that their hosts are left alone again; unless
// another tenant has linked them too.
func (a *App) Unlink(ctx context.Context, name string) (Unlinked, error) {
	out := Unlinked{Services: []string{}, Kept: []string{}}
	service, err := a.toUnlink(name)
	if err != nil {
		return out, err
	}
	out.Service = service.Name
	if service.Auth.Ref == "" {
		return out, needsNone(service)
	}
	if out.Removed, err = a.removeStored(ctx, service.Auth.Ref); err != nil {
		return out, err
	}
	elsewhere, err := a.linkedElsewhere(ctx, service.Auth.Ref)
	if err != nil {
		return out, err
	}
	written := map[string]string{} // a home of an earlier kimbap has no record of it
	if pins, err := a.home.ReadPins(); err == nil {
		written = pins.Catalogue
	}
	for _, s := range a.Services().Services() {
		switch {
		case s.Auth.Ref != service.Auth.Ref:
		case elsewhere || !a.installer().Shipped(s, written[s.Name]):
			out.Kept = append(out.Kept, s.Name)
		default:
			if err := a.RemoveService(ctx, s.Name); err != nil {
				return out, err
			}
			out.Services = append(out.Services, s.Name)
		}
	}
	return out, nil
}

// toUnlink finds a service whose key is to go. One whose file cannot be read is
// taken as the catalogue has it, if it has.
func (a *App) toUnlink(name string) (*services.Service, error) {
	if s, ok := a.Services().Service(name); ok {
		return s, nil
	}
	if a.fault == nil {
		return nil, a.notLinked(name)
	}
	if data, err := catalog.Read(name); err == nil {
		return services.Parse(name+".yaml", data)
	}
	if services.Installed(a.home.Services(), name) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("the file of the service %s cannot be read, so its credential is not known", name),
			Hint: "kimbap vault list, then: kimbap vault remove NAME", Err: a.fault,
		}
	}
	return nil, a.notLinked(name)
}

// notLinked is the error of a service that is not there to be forgotten: to install it would
// be the opposite.
func (a *App) notLinked(name string) error {
	e := *runtime.AsError(a.unknownService(name))
	e.Hint = "kimbap service list"
	return &e
}

// linkedElsewhere reports whether another tenant has a credential of that name.
func (a *App) linkedElsewhere(ctx context.Context, ref string) (bool, error) {
	for _, t := range a.Tenants() {
		if t == a.tenant {
			continue
		}
		stored, err := a.vault.List(ctx, t)
		if err != nil || slices.ContainsFunc(stored, func(e vault.Entry) bool { return e.Name == ref }) {
			return err == nil, err
		}
	}
	return false, nil
}

// removeStored is RemoveSecret where one is seen to be stored: of none there is nothing to record.
func (a *App) removeStored(ctx context.Context, name string) (bool, error) {
	stored, err := a.vault.List(ctx, a.tenant)
	if err == nil && !slices.ContainsFunc(stored, func(e vault.Entry) bool { return e.Name == name }) {
		return false, nil
	}
	return a.RemoveSecret(ctx, name)
}

// RemoveSecret removes a stored credential; false when there was none.
func (a *App) RemoveSecret(ctx context.Context, name string) (removed bool, err error) {
	return a.deprivingOf(ctx, "vault.remove", map[string]string{"name": name}, func() (bool, error) {
		return a.vault.Remove(ctx, a.tenant, name)
	})
}
