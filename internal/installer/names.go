package installer

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// The names that a file may not have, or not unasked: those by which somebody means
// another service.

// taken reports whether a service of that name is here, in force or not.
func (k Keeper) taken(name string) bool {
	return services.Installed(k.Home.Services(), name) || slices.Contains(k.Disabled(), name)
}

// former is the service of that name that a file replaces, in force or not; nil for none.
func (k Keeper) former(name string) *services.Service {
	if s, ok := k.Services.Current().Service(name); ok {
		return s
	}
	for _, s := range services.LoadDisabled(k.Home.Services()) {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// poses refuses what would stand for a service that is installed, or that the catalogue has, by
// having its name or an alias of it: what was fetched, or made of somebody's description, chose
// that itself, and its risks and hosts are not those that were looked at.
func (k Keeper) poses(name, command string) error {
	if k.taken(name) {
		return home.Changed("a service "+name+" is installed already, and this one came from elsewhere", "read it, then: "+command)
	}
	all, err := catalog.Heads()
	if err != nil {
		return err
	}
	shipped := meant(all, name)
	if shipped == nil {
		return nil
	}
	known := name + " is "
	if shipped.Name != name {
		known += shipped.Name + ", "
	}
	return home.Changed(known+"a service of the catalogue, and this one came from elsewhere: it would get the key of kimbap link "+name, "read it, then: "+command)
}

// squats refuses an alias by which people mean a service of the catalogue: a key that
// its owner means for that one, `kimbap link github`, would go to this one's hosts.
func squats(s *services.Service, data []byte) error {
	if shipped, err := catalog.Read(s.Name); len(s.Aliases) == 0 || err == nil && bytes.Equal(shipped, data) {
		return nil
	}
	all, err := catalog.Heads()
	if err != nil {
		return err
	}
	for _, alias := range s.Aliases {
		other := meant(all, alias)
		if other == nil || other.Name == s.Name {
			continue
		}
		return &runtime.Error{
			Code: runtime.CodeInvalidInput,
			Msg:  fmt.Sprintf("the alias %s is what a service of the catalogue is called, whose key %s would get", alias, s.Name),
			Hint: "take that alias out of the file, of one at an address in a copy, then install the file",
		}
	}
	return nil
}

// meant is the one of the services that people mean by a word, its name or an alias; nil for none.
func meant(all []*services.Head, word string) *services.Head {
	at := slices.IndexFunc(all, func(s *services.Head) bool { return s.Name == word || slices.Contains(s.Aliases, word) })
	if at < 0 {
		return nil
	}
	return all[at]
}
