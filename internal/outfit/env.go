package outfit

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Form is what `kimbap env` is told, wherever the shell's kimbap is.
type Form struct {
	Shell string
	Proxy string // "": the one that is found
	Unset bool   // take the variables back
}

// Text are the variables of a place, in the form.
func (f Form) Text(place runner.Place) (string, error) {
	text, err := runner.Format(f.Shell, place, f.Unset)
	if err != nil {
		return "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: err.Error(), Hint: "kimbap env --help"}
	}
	return text, nil
}

// Environment are the variables of a process, by name.
type Environment map[string]string

// NewEnvironment indexes NAME=value pairs; the last one of a name wins.
func NewEnvironment(pairs []string) Environment {
	out := make(Environment, len(pairs))
	for _, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			out[name] = value
		}
	}
	return out
}

// UserDir is the folder of the user's own files, "" when it is not known.
func (e Environment) UserDir() string {
	return system.UserDir(func(name string) string { return e[name] })
}

// Own are the user's values of variables that kimbap's come behind.
func (e Environment) Own() map[string]string {
	return runner.Own(func(name string) string { return e[name] })
}

// Fit makes a place one for the shell that has this environment, and says what of the
// user's own its variables replace there. A container has none of that.
func (e Environment) Fit(f Form, place *runner.Place) (notes []string, err error) {
	notes = e.Replaced(place.Placeholders)
	if f.Shell == "docker" {
		return notes, nil
	}
	lost, err := e.keepRoots(place)
	return append(append(notes, lost...), e.keepOwn(place)...), err
}

// TakeBack makes a place one whose variables this shell gives back, and says which of them
// stay. Placeholders go by their values, those of any service known: which are linked may
// have changed since, and a key of the user's own is none.
func (e Environment) TakeBack(place *runner.Place, known Catalogue) (notes []string) {
	place.Placeholders = map[string]string{}
	take := func(placeholders map[string]string) {
		for name, value := range placeholders {
			if e[name] == value {
				place.Placeholders[name] = value
			}
		}
	}
	take(runner.Given(e))
	for _, s := range known {
		take(s.Placeholders)
	}
	place.Before, place.Theirs = runner.Kept(e), runner.Theirs(*place, e)
	if len(place.Theirs) == 0 {
		return nil
	}
	return []string{strings.Join(slices.Sorted(slices.Values(place.Theirs)), ", ") + ": left as they are, because kimbap did not set them"}
}

// keepOwn has the shell keep what a place's variables replace there, for --unset, and says
// what of it is not kept.
func (e Environment) keepOwn(place *runner.Place) (notes []string) {
	kept, withheld := runner.Before(*place, e)
	place.Before, place.Given = kept, runner.Given(e)
	for _, name := range withheld {
		notes = append(notes, name+": replaced, and --unset does not give it back: it has a password, which every program could read there")
	}
	return notes
}

// Replaced says, in one note or none, which real keys placeholders stand in for.
func (e Environment) Replaced(placeholders map[string]string) (notes []string) {
	var names []string
	for name, placeholder := range placeholders {
		if value := e[name]; value != placeholder && value != "" {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	sort.Strings(names)
	return []string{fmt.Sprintf("%s: replaced by a placeholder, because kimbap holds the key", strings.Join(names, ", "))}
}
