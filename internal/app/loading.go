package app

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/services"
)

// Reading the services and the policy: what they say decides, so what of them cannot be read is
// told ([App.Fault]) and never left out in silence.

func (a *App) loadServices(context.Context) error {
	a.files = a.asRead()
	set, err := a.readServices()
	if err != nil && a.o.Despite {
		a.fault = err
		set, err = a.readableServices()
	}
	if err != nil {
		return err
	}
	a.services = services.NewLive(set)
	return nil
}

// ConfigFault says why the configuration cannot be read, nil when it is in force.
func (a *App) ConfigFault() error { return a.unread }

// readableServices are those of the installed services that can be read by
// themselves, none when not even they go together.
func (a *App) readableServices() (*services.Set, error) {
	if set, err := services.NewSet(services.LoadSound(a.home.Services())); err == nil {
		return set, nil
	}
	return services.NewSet(nil)
}

// Fault says what is wrong with the files of the policy and the services, nil
// when nothing is or the home was not opened despite it.
func (a *App) Fault() error { return a.fault }

// Unusable are the installed services that [App.Fault] is about, by the names of their files,
// and what is wrong with each.
func (a *App) Unusable() map[string][]FileProblem {
	out := map[string][]FileProblem{}
	for _, p := range FileProblems(a.fault) {
		if filepath.Dir(p.File) == a.home.Services() {
			name := strings.TrimSuffix(filepath.Base(p.File), ".yaml")
			out[name] = append(out[name], p)
		}
	}
	return out
}

// readServices loads the installed services, or those that Options.Only names.
func (a *App) readServices() (*services.Set, error) {
	if a.o.Only != nil && !a.hasProject() {
		if some, ok := a.someServices(); ok {
			set, err := services.NewSet(some)
			return set, a.unloaded(err)
		}
	}
	all, err := a.withProject(func() ([]*services.Service, error) { return services.LoadDir(a.home.Services()) })
	if err != nil {
		return nil, a.unloaded(err)
	}
	set, err := services.NewSet(all)
	return set, a.unloaded(err)
}

// unloaded is the error of installed services that do not load, with what mends them.
func (a *App) unloaded(err error) error {
	if err == nil {
		return nil
	}
	return runtime.Invalid(err, a.installer().Mend(err))
}

// someServices loads the services that Options.Only names, and those of their hosts.
// It is false when one of them is an alias, or nothing: only the whole set can tell.
func (a *App) someServices() ([]*services.Service, bool) {
	var out []*services.Service
	for _, word := range a.o.Only {
		var one *services.Service
		for _, name := range sandbox.ServiceNames(word) {
			if s, err := services.LoadOne(a.home.Services(), name); err == nil {
				one = s
				break
			}
		}
		if one == nil {
			return nil, false
		}
		if !slices.ContainsFunc(out, func(s *services.Service) bool { return s.Name == one.Name }) {
			out = append(out, one)
		}
	}
	return services.Neighbours(a.home.Services(), out)
}

// ServicesOf are the services that a script names, as Options.Only takes them; nil
// when it may use any.
func ServicesOf(source string) []string {
	words, ok := sandbox.NamedServices(source)
	if !ok {
		return nil
	}
	return words
}

func (a *App) loadPolicy(context.Context) error {
	set, wrong := a.rules().Read(a.services.Current())
	err := wrong.Err()
	if err != nil && !a.o.Despite {
		return err
	}
	if a.fault == nil { // without its services a good policy has faults too
		a.fault = runtime.Invalid(err, "kimbap policy validate")
	}
	a.policy = policy.NewLive(set)
	return nil
}

// placeholder tells whether a value is the placeholder of an installed service.
func (a *App) placeholder(value string) (string, bool) {
	return a.services.Current().Placeholder(value)
}

// placeholderIn tells whether the name of a field holds one.
func (a *App) placeholderIn(name string) (string, bool) {
	return a.services.Current().PlaceholderIn(name)
}

// keyOf names the stored key of an installed service, "" where it has none.
func (a *App) keyOf(service string) string {
	if s, ok := a.services.Current().Service(service); ok && s.Auth != nil {
		return s.Auth.Ref
	}
	return ""
}
