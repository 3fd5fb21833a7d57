package app

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/installer"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Outdated is an installed service of which the catalogue of this program has another file
// than it was installed from. Versions do not tell: what a file says does.
type Outdated struct {
	Name     string
	Unknown  bool     // its file may be the owner's own: kimbap did not always keep what it had written
	Changed  bool     // its file was changed by hand since, which would be lost
	Disabled bool     // it is not in force, and would be again
	Wants    []string // variables that it never had; Command has … for their values
	Command  string   // takes the catalogue's
}

// Outdated are the services that were installed from another catalogue than this program's,
// those in force and those that are disabled, by name. It reads files alone.
func (a *App) Outdated() ([]Outdated, error) {
	pins, err := a.home.ReadPins()
	if err != nil {
		return nil, err
	}
	var out []Outdated
	names := a.DisabledServices()
	for _, s := range a.Services().Services() {
		names = append(names, s.Name)
	}
	for _, name := range names {
		if o := a.outdated(name, pins); o != nil {
			out = append(out, *o)
		}
	}
	slices.SortFunc(out, func(a, b Outdated) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// outdated compares what the catalogue would write today, with the same values, with what
// was written, and with what is there: nil where one of them is the same, and where values
// cannot be told any more, so that nobody knows, or the owner keeps their own. A variable that the file never had, while
// nobody changed it by hand, is told: there is no value to be found.
func (a *App) outdated(name string, pins *home.Pins) *Outdated {
	written, shipped := pins.Catalogue[name]
	_, fetched := pins.Services[name]
	data, err := catalog.Read(name)
	if fetched || err != nil || pins.Own[name] == installer.SumOf(data) {
		return nil
	}
	path, inForce := services.InstalledFile(a.home.Services(), name)
	here, err := os.ReadFile(path)
	if err != nil {
		return nil // a project's, or gone since
	}
	today, values, err := services.Refilled(name+".yaml", data, here)
	if err != nil {
		return nil
	}
	is := installer.SumOf(here)
	o := &Outdated{Name: name, Unknown: !shipped, Changed: shipped && is != written, Disabled: !inForce}
	if today == nil {
		if o.Wants = services.NewVariables(data, here); o.Unknown || o.Changed || len(o.Wants) == 0 {
			return nil
		}
	} else if sum := installer.SumOf(today); shipped && sum == written || sum == is {
		return nil
	}
	o.Command = installAgain(name, data, values)
	return o
}

// installAgain is the command that takes the catalogue's file with the values of before.
func installAgain(name string, data []byte, values map[string]string) string {
	command := "kimbap service install " + name
	s, err := services.Parse(name+".yaml", data)
	if err != nil {
		return command
	}
	for _, unset := range s.Unset {
		value := "…" // no value of any: pasted as it stands it is refused
		if values[unset] != "" {
			value = runtime.Quote(values[unset])
		}
		command += " --var " + unset + "=" + value
	}
	return command
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
