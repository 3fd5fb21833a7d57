package installer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Mend says what to do about installed services that do not load, or not together: for each
// file the command that takes the catalogue's, or how to go on without it. The error is of
// [services.LoadDir] or [services.NewSet].
func (k Keeper) Mend(err error) string {
	var unread *fs.PathError
	if errors.As(err, &unread) {
		return "make " + runtime.Quote(unread.Path) + " a file that you can read, or remove it"
	}
	if both := rivals(err); both != nil && both[0] == both[1] {
		return "remove one of the two files"
	} else if both != nil {
		return "keep one of the two: kimbap service disable " + strings.Join(both, ", or kimbap service disable ")
	}
	var problems services.Problems
	if !errors.As(err, &problems) {
		return "kimbap service list"
	}
	var files, fixes []string
	for _, p := range problems {
		if !slices.Contains(files, p.File) {
			files = append(files, p.File)
			fixes = append(fixes, k.mendFile(p.File))
		}
	}
	return strings.Join(fixes, "; ")
}

// mendFile is what to do about one file. Only a file that nobody changed since it was
// written from the catalogue is replaced without a word: what the owner wrote is nowhere else.
func (k Keeper) mendFile(file string) string {
	name := strings.TrimSuffix(filepath.Base(file), ".yaml")
	if filepath.Dir(file) != k.Home.Services() { // of a repository
		return "correct " + runtime.Quote(file)
	}
	if data, err := catalog.Read(name); err == nil {
		if here, err := os.ReadFile(file); err == nil {
			command := installAgain(name, data, valuesOf(name, data, here))
			if pins, err := k.Home.ReadPins(); err == nil && pins.Catalogue[name] == sumOf(here) {
				return command
			}
			return "correct " + runtime.Quote(file) + ", or take the catalogue's in its place: " + command
		}
	}
	if !services.Installed(k.Home.Services(), name) {
		return "correct " + runtime.Quote(file)
	}
	return "correct " + runtime.Quote(file) + ", or go on without it: kimbap service disable " + name
}

// valuesOf are the values that the variables of the catalogue's file have in the installed one.
func valuesOf(name string, data, here []byte) map[string]string {
	_, values, err := services.Refilled(name+".yaml", data, here)
	if err != nil {
		return nil
	}
	return values
}

// rivals are two services that cannot be in force together, nil for any other error.
func rivals(err error) []string {
	if overlap := (*classifier.OverlapError)(nil); errors.As(err, &overlap) {
		first, _, _ := strings.Cut(overlap.First.Action, ".")
		second, _, _ := strings.Cut(overlap.Second.Action, ".")
		return []string{first, second}
	}
	if name := (*services.NameError)(nil); errors.As(err, &name) {
		return []string{name.First.Name, name.Second.Name}
	}
	return nil
}
