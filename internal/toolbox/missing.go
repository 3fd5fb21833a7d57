package toolbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Action finds an action by "service.action", an alias of the service included.
func (b Box) Action(ref string) (*runtime.Action, error) {
	service, name, ok := strings.Cut(ref, ".")
	s, installed := b.Services.Current().Service(service)
	if ok && installed {
		ref = s.Name + "." + name
	}
	if action, found := b.Services.Current().Action(ref); found {
		return action, nil
	}
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Stage: runtime.StageResolve,
		Msg: fmt.Sprintf("there is no action %q", ref), Hint: "kimbap actions list",
	}
	const ask = "search for it, or list the actions: GET /v1/actions"
	if near := b.Services.Current().Suggest(ref); len(near) > 0 {
		e.Msg += "; did you mean " + strings.Join(near, ", ") + "?"
		e.Ask = ask
	} else if installed {
		e.Hint, e.Ask = "kimbap actions list "+service, ask
	} else if b.broken(service) {
		return nil, b.Unknown(service)
	} else if slices.Contains(b.disabled(), service) {
		e.Msg, e.Hint = fmt.Sprintf("the service %q is disabled", service), "kimbap service enable "+service
	} else if data, err := catalog.Read(service); ok && err == nil && len(data) > 0 {
		e.Msg, e.Hint = fmt.Sprintf("the service %q is not installed", service), "kimbap service install "+service
	} else {
		return nil, b.Unknown(service)
	}
	return nil, e
}

// InForce is an installed service by its name or an alias; the error says how to bring
// one that is not in force.
func (b Box) InForce(name string) (*services.Service, error) {
	if s, found := b.Services.Current().Service(name); found {
		return s, nil
	}
	return nil, b.Unknown(name)
}

// Bring are the commands that bring the services which words mean and that are not in
// force.
func (b Box) Bring(words []string) []string {
	var out []string
	for _, word := range words {
		if _, fix := b.Missing(word); fix != "" && !slices.Contains(out, fix) {
			out = append(out, fix)
		}
	}
	return out
}

// Missing finds the service that a word of a script means and that is disabled here, or
// in the catalogue and not installed, and the command that brings it; "" for none.
func (b Box) Missing(word string) (service, fix string) {
	means := func(name string) bool { return name == word || sandbox.Camel(name) == word }
	if off := b.disabled(); slices.ContainsFunc(off, means) {
		name := off[slices.IndexFunc(off, means)]
		return name, "kimbap service enable " + name
	}
	names := catalog.Names()
	if i := slices.IndexFunc(names, means); i >= 0 {
		if _, installed := b.Services.Current().Service(names[i]); !installed && !b.broken(names[i]) {
			return names[i], "kimbap service install " + names[i]
		}
	}
	return "", ""
}

// Unknown is the error for a name that is not in force: it is disabled, not
// installed, or not even shipped.
func (b Box) Unknown(name string) error {
	e := &runtime.Error{Code: runtime.CodeUnknownAction, Reason: runtime.ReasonNotFound}
	names := catalog.Names()
	switch {
	case b.broken(name):
		e.Msg, e.Hint = fmt.Sprintf("the service %q is installed, and its file cannot be used", name), "kimbap service list"
		return e
	case slices.Contains(b.disabled(), name):
		e.Msg, e.Hint = fmt.Sprintf("the service %q is disabled", name), "kimbap service enable "+name
		return e
	case slices.Contains(names, name):
		e.Msg, e.Hint = fmt.Sprintf("the service %q is not installed", name), "kimbap service install "+name
		return e
	}
	e.Msg, e.Hint, e.Ask = fmt.Sprintf("there is no service %q", name), "kimbap service list --catalog", "list the services: GET /v1/services"
	for _, s := range b.Services.Current().Services() {
		names = append(names, s.Name)
	}
	if near := runtime.Nearest(name, names); near != "" {
		e.Msg += fmt.Sprintf("; did you mean %s?", near)
	}
	return e
}

// broken reports whether a service that is not among those in force has a file all the same,
// which cannot be used.
func (b Box) broken(name string) bool {
	_, installed := services.InstalledFile(b.Home.Services(), name)
	return installed
}

// disabled are the names of services that are installed and not in force.
func (b Box) disabled() []string { return services.Disabled(b.Home.Services()) }
