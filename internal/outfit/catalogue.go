package outfit

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/services"
)

// Catalogue are the services that a program may know without their being installed.
type Catalogue []*services.Service

// Service finds one by its name.
func (c Catalogue) Service(name string) (*services.Service, bool) {
	at := slices.IndexFunc(c, func(s *services.Service) bool { return s.Name == name })
	if at < 0 {
		return nil, false
	}
	return c[at], true
}

// Variables are those that usually hold a key: of the placeholders of every service.
func (c Catalogue) Variables() []string {
	var out []string
	for _, s := range c {
		for variable := range s.Placeholders {
			out = append(out, variable)
		}
	}
	return out
}

// StandsIn tells values that stand in for a key, of what is installed and of the
// catalogue: a shell may have them from another kimbap env. installed is nil where
// nothing is.
func (c Catalogue) StandsIn(installed func(value string) (service string, ok bool)) func(value string) bool {
	all := map[string]bool{}
	for _, s := range c {
		for _, value := range s.Placeholders {
			all[value] = true
		}
	}
	return func(value string) bool {
		if all[value] || installed == nil {
			return all[value]
		}
		_, ours := installed(value)
		return ours
	}
}

// GitHosts are the hosts of linked services that git talks to, where git must
// not ask its own credential helper.
func GitHosts(service func(name string) (*services.Service, bool), linked []string) []string {
	var out []string
	for _, name := range linked {
		s, ok := service(name)
		if !ok || !strings.HasSuffix(name, "-git") {
			continue
		}
		for _, authority := range s.Authorities {
			out = append(out, strings.TrimSuffix(authority, ":443"))
		}
	}
	return out
}
