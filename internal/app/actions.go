package app

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
)

// Service is a loaded service file.
type Service = services.Service

// Catalog loads every service that is shipped.
func Catalog() ([]*Service, error) { return catalog.Services() }

// CatalogNames are the services that can be installed by name.
func CatalogNames() []string { return catalog.Names() }

// Action finds an action by "service.action", an alias of the service included.
func (a *App) Action(ref string) (*runtime.Action, error) {
	service, name, ok := strings.Cut(ref, ".")
	s, installed := a.Services().Service(service)
	if ok && installed {
		ref = s.Name + "." + name
	}
	if action, found := a.Services().Action(ref); found {
		return action, nil
	}
	e := &runtime.Error{
		Code: runtime.CodeUnknownAction, Stage: runtime.StageResolve,
		Msg: fmt.Sprintf("there is no action %q", ref), Hint: "kimbap actions list",
	}
	const ask = "search for it, or list the actions: GET /v1/actions"
	if near := a.Services().Suggest(ref); len(near) > 0 {
		e.Msg += "; did you mean " + strings.Join(near, ", ") + "?"
		e.Ask = ask
	} else if installed {
		e.Hint, e.Ask = "kimbap actions list "+service, ask
	} else if slices.Contains(a.DisabledServices(), service) {
		e.Msg, e.Hint = fmt.Sprintf("the service %q is disabled", service), "kimbap service enable "+service
	} else if data, err := catalog.Read(service); ok && err == nil && len(data) > 0 {
		e.Msg, e.Hint = fmt.Sprintf("the service %q is not installed", service), "kimbap service install "+service
	} else {
		return nil, a.unknownService(service)
	}
	return nil, e
}

// CatalogOwner is the service of the catalogue that has the host of a URL, "" when none
// has. Where it is not installed its requests pass as those of any host. Insecure says
// that it would refuse the URL, which is in cleartext.
func CatalogOwner(rawURL string) (name string, insecure bool) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", false
	}
	authority, err := classifier.CanonicalAuthority(u.Host, "443")
	if err != nil {
		return "", false
	}
	known, err := Catalog()
	if err != nil {
		return "", false
	}
	for _, s := range known {
		if !slices.Contains(s.Authorities, authority) {
			continue
		}
		asked, err := classifier.CanonicalAuthority(u.Host, runtime.DefaultPort(u.Scheme))
		alone, serr := services.NewSet([]*services.Service{s})
		return s.Name, err == nil && serr == nil && alone.Table().Host(u.Scheme, asked) == classifier.HostInsecure
	}
	return "", false
}

// Argument reads what a person wrote for an argument of an action, typed; the
// complaint finishes a sentence that starts with the argument.
func Argument(p *runtime.Param, text string) (value any, complaint string) {
	return services.Argument(p, text)
}
