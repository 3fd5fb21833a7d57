package installer

import (
	"os"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
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
func (k Keeper) Outdated() ([]Outdated, error) {
	pins, err := k.Home.ReadPins()
	if err != nil {
		return nil, err
	}
	var out []Outdated
	names := services.Disabled(k.Home.Services())
	for _, s := range k.Services.Current().Services() {
		names = append(names, s.Name)
	}
	for _, name := range names {
		if o := k.outdated(name, pins); o != nil {
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
func (k Keeper) outdated(name string, pins *home.Pins) *Outdated {
	written, shipped := pins.Catalogue[name]
	_, fetched := pins.Services[name]
	data, err := catalog.Read(name)
	if fetched || err != nil || pins.Own[name] == sumOf(data) {
		return nil
	}
	path, inForce := services.InstalledFile(k.Home.Services(), name)
	here, err := os.ReadFile(path)
	if err != nil {
		return nil // a project's, or gone since
	}
	today, values, err := services.Refilled(name+".yaml", data, here)
	if err != nil {
		return nil
	}
	is := sumOf(here)
	o := &Outdated{Name: name, Unknown: !shipped, Changed: shipped && is != written, Disabled: !inForce}
	if today == nil {
		if o.Wants = services.NewVariables(data, here); o.Unknown || o.Changed || len(o.Wants) == 0 {
			return nil
		}
	} else if sum := sumOf(today); shipped && sum == written || sum == is {
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

// Diff is how the catalogue's file of a service differs from the installed one.
type Diff struct {
	Name    string   `json:"name"`
	File    string   `json:"file"`             // the installed one
	Lines   []string `json:"lines"`            // as diff -u has them, without the heads; none: they are the same
	Command string   `json:"update,omitempty"` // takes the catalogue's, where that is another
}

// Diff compares an installed file with what the catalogue would write today, with the
// same values of its variables where those can be told.
func (k Keeper) Diff(name string) (*Diff, error) {
	data, err := catalog.Read(name)
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "the catalogue of this kimbap has no service " + name, Hint: "kimbap service list --catalog",
		}
	}
	path, _ := services.InstalledFile(k.Home.Services(), name)
	here, err := os.ReadFile(path)
	if err != nil {
		return nil, k.Unknown(name)
	}
	today, values, err := services.Refilled(name+".yaml", data, here)
	if err != nil {
		return nil, err
	}
	if today == nil {
		today = data
	}
	d := &Diff{Name: name, File: path, Lines: diffLines(textLines(here), textLines(today))}
	if len(d.Lines) > 0 {
		d.Command = installAgain(name, data, values)
	}
	return d, nil
}
