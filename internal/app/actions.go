package app

import (
	"context"
	"math"
	"net/url"
	"slices"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/internal/object"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/export"
)

// Service is a loaded service file.
type Service = services.Service

// Catalog loads every service that is shipped.
func Catalog() ([]*Service, error) { return catalog.Services() }

// CatalogNames are the services that can be installed by name.
func CatalogNames() []string { return catalog.Names() }

// OpenToList opens what listing services and actions needs: their files, without the vault
// and the store.
func (a *App) OpenToList(ctx context.Context) error {
	if err := a.home.Check(a.o.UID); err != nil {
		return err
	}
	if err := a.checkTenant(); err != nil {
		return err
	}
	return a.loadServices(ctx)
}

// Action finds an action by "service.action", an alias of the service included.
func (a *App) Action(ref string) (*runtime.Action, error) { return a.toolbox().Action(ref) }

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
	known, err := catalog.Heads()
	if err != nil {
		return "", false
	}
	for _, s := range known {
		if !slices.Contains(s.Authorities, authority) {
			continue
		}
		asked, err := classifier.CanonicalAuthority(u.Host, runtime.DefaultPort(u.Scheme))
		return s.Name, err == nil && refusesCleartext(s.Name, u.Scheme, asked)
	}
	return "", false
}

// refusesCleartext tells whether a service of the catalogue refuses that scheme for an
// authority of its own.
func refusesCleartext(name, scheme, authority string) bool {
	data, err := catalog.Read(name)
	if err != nil {
		return false
	}
	s, err := services.Parse(name+".yaml", data)
	if err != nil {
		return false
	}
	alone, err := services.NewSet([]*services.Service{s})
	return err == nil && alone.Table().Host(scheme, authority) == classifier.HostInsecure
}

// Argument reads what a person wrote for an argument of an action, typed; the
// complaint finishes a sentence that starts with the argument.
func Argument(p *runtime.Param, text string) (value any, complaint string) {
	return services.Argument(p, text)
}

// Doubled says which name stands twice in one object of a JSON value, "" for none. It is
// asked of a text that was decoded.
func Doubled(data []byte) (complaint string) {
	if name, is := object.Twice(data, math.MaxInt); is {
		return object.TwiceText(name)
	}
	return ""
}

// SkillOf is the SKILL.md of a service.
func SkillOf(s *Service) []byte { return export.Skill(s) }

// DeclarationsOf are the TypeScript declarations of services.
func DeclarationsOf(list []*Service) []byte { return export.Declarations(list) }

// ServiceSchema is the JSON Schema of service files.
func ServiceSchema() []byte { return export.Schema() }
