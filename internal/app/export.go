package app

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/export"
)

// FindService reads a service without opening the home: a file, else what is
// installed there under the name, else what the catalogue has.
func FindService(home Home, from string) (*Service, []byte, error) {
	var data []byte
	var err error
	file := from
	if strings.ContainsRune(from, filepath.Separator) || strings.HasSuffix(from, ".yaml") || strings.HasSuffix(from, ".yml") {
		data, err = os.ReadFile(from)
	} else if file = filepath.Join(home.Services(), filepath.Base(from)+".yaml"); true {
		if data, err = os.ReadFile(file); errors.Is(err, fs.ErrNotExist) {
			file = from + ".yaml"
			data, err = catalog.Read(from)
		}
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

// SkillOf is the SKILL.md of a service.
func SkillOf(s *Service) []byte { return export.Skill(s) }

// DeclarationsOf are the TypeScript declarations of services.
func DeclarationsOf(list []*Service) []byte { return export.Declarations(list) }

// ServiceSchema is the JSON Schema of service files.
func ServiceSchema() []byte { return export.Schema() }
