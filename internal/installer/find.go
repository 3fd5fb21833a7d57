package installer

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Find reads a service without opening the home: a file, else what is
// installed there under the name, else what the catalogue has.
func Find(home home.Folder, from string) (*services.Service, []byte, error) {
	file, data, err := serviceFile(home, from)
	if err != nil && isFile(from) && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, unreadable(err)
	}
	if err != nil {
		e := &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no service or service file " + from,
			Hint: "kimbap service list --catalog",
		}
		if near := runtime.Nearest(from, catalog.Names()); near != "" {
			e.Msg += "; did you mean " + near + "?"
		}
		return nil, nil, e
	}
	s, err := services.Parse(file, data)
	return s, data, runtime.Invalid(err, "correct the file, then: kimbap service validate "+runtime.Quote(file))
}

// serviceFile reads the file that Find means.
func serviceFile(home home.Folder, from string) (file string, data []byte, err error) {
	if isFile(from) {
		data, err = system.ReadUpTo(from, services.MaxFile+1)
		return from, data, err
	}
	file = filepath.Join(home.Services(), filepath.Base(from)+".yaml")
	if data, err = system.ReadUpTo(file, services.MaxFile+1); !errors.Is(err, fs.ErrNotExist) {
		return file, data, err
	}
	data, err = catalog.Read(from)
	return from + ".yaml", data, err
}

// unreadable is the refusal of a service file that is there: a folder, or not ours to read.
func unreadable(err error) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: "the service file cannot be read: " + err.Error(),
		Hint: "give a file, or a name of kimbap service list --catalog",
	}
}

// isFile reports whether a word is meant as the path of a service file, not as a name.
func isFile(from string) bool {
	return strings.ContainsRune(from, filepath.Separator) || strings.HasSuffix(from, ".yaml") || strings.HasSuffix(from, ".yml")
}
