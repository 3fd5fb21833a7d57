package outfit

import (
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/services"
)

// Catalogue are the services that a program may know without their being installed.
type Catalogue []*services.Head

// Hosts are the host:port of the service of that name, none when there is none.
func (c Catalogue) Hosts(name string) []string {
	at := slices.IndexFunc(c, func(s *services.Head) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return c[at].Authorities
}

// Authorities are the host:port of each service.
func (c Catalogue) Authorities() [][]string {
	out := make([][]string, 0, len(c))
	for _, s := range c {
		out = append(out, s.Authorities)
	}
	return out
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
// not ask its own credential helper. hosts tells the host:port of a service.
func GitHosts(hosts func(service string) []string, linked []string) []string {
	var out []string
	for _, name := range linked {
		if !strings.HasSuffix(name, "-git") {
			continue
		}
		for _, authority := range hosts(name) {
			out = append(out, strings.TrimSuffix(authority, ":443"))
		}
	}
	return out
}
