package app

import (
	"context"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/installer"
)

// How installed services differ from what the catalogue of this program has.
type (
	Outdated    = installer.Outdated
	ServiceDiff = installer.Diff
)

// Outdated are the services that were installed from another catalogue than this program's,
// those in force and those that are disabled, by name. It reads files alone.
func (a *App) Outdated() ([]Outdated, error) { return a.installer().Outdated() }

// DiffService compares an installed file with what the catalogue would write today.
func (a *App) DiffService(name string) (*ServiceDiff, error) { return a.installer().Diff(name) }

// KeepService notes that the owner keeps their own file of a service beside the one that the
// catalogue has now.
func (a *App) KeepService(ctx context.Context, name string) error {
	return a.installer().KeepOwn(ctx, name)
}

// doctorCatalogue names services of an older catalogue. They work as they did.
func (a *App) doctorCatalogue(context.Context) Finding {
	list, err := a.Outdated()
	list = slices.DeleteFunc(list, func(o Outdated) bool { return o.Disabled }) // which serve nothing
	var unknown, names []string
	for _, o := range list {
		if o.Unknown {
			unknown = append(unknown, o.Name)
		} else {
			names = append(names, o.Name)
		}
	}
	switch {
	case err != nil:
		return Finding{"catalogue", "warn", err.Error(), ""}
	case len(names) == 0 && len(unknown) > 0: // no fault, as far as anybody knows
		return Finding{"catalogue", "ok", "this kimbap has another file of: " + strings.Join(unknown, ", ") + "; yours may be older, or your own: kimbap service diff " + unknown[0], ""}
	case len(names) == 0:
		return Finding{"catalogue", "ok", "installed services of it are as this kimbap has them", ""}
	}
	fix := "kimbap service list"
	if len(list) == 1 && !list[0].Changed && list[0].Wants == nil {
		fix = list[0].Command
	}
	return Finding{"catalogue", "warn", "this kimbap has another file of: " + strings.Join(names, ", "), fix}
}
