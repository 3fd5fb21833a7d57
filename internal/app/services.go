package app

import (
	"context"
	"net"

	"github.com/kimbap-run/kimbap/internal/errata"
	"github.com/kimbap-run/kimbap/internal/installer"
	"github.com/kimbap-run/kimbap/services"
)

// What is installed, and from where.
type (
	Review   = installer.Review
	Install  = installer.Install
	Import   = installer.Import
	Imported = installer.Imported
)

// installer puts services into the home and takes them out.
func (a *App) installer() installer.Keeper {
	return installer.Keeper{
		Home: a.home, Services: a.services, Broken: a.fault != nil,
		Reload: a.reloadServices, Check: errata.Filters, Fits: a.fits, Unknown: a.unknownService, Trust: a.upstreamTLS,
		Dial: func(ctx context.Context, authority string) (net.Conn, error) {
			conn, _, _, err := a.dialer().Dial(ctx, authority, false, false)
			return conn, err
		},
		Record: a.serviceEvent, Deprive: func(ctx context.Context, kind, service, digest string) error {
			return a.inLedger(ctx, a.ofService(kind, service, digest))
		},
		Within: func(ctx context.Context, kind, service, digest string, act func() error) error {
			return a.within(ctx, a.ofService(kind, service, digest), act)
		},
	}
}

// InstallService installs a service file or a service of the catalogue.
func (a *App) InstallService(ctx context.Context, from string, vars map[string]string) (*services.Service, error) {
	return a.installer().InstallService(ctx, from, vars)
}

// Install installs a service and says what it brings. What was fetched is pinned
// by its hash.
func (a *App) Install(ctx context.Context, i Install) (*Review, error) {
	return a.installer().Install(ctx, i)
}

// InstallImported installs what was imported; with update also in the place of a
// service of that name.
func (a *App) InstallImported(ctx context.Context, r *Imported, vars map[string]string, update bool) (*Review, error) {
	return a.installer().InstallImported(ctx, r, vars, update)
}

// ImportFile makes a service file of an API description in a file.
func ImportFile(i Import) (*Imported, error) { return installer.ImportFile(i) }

// ImportURL does the same with a description that is fetched.
func (a *App) ImportURL(ctx context.Context, i Import) (*Imported, error) {
	return a.installer().ImportURL(ctx, i)
}

// IsURL reports whether a place is an address and not a path.
func IsURL(from string) bool { return installer.IsURL(from) }

// FindService reads a service without opening the home: a file, else what is
// installed there under the name, else what the catalogue has.
func FindService(home Home, from string) (*Service, []byte, error) { return installer.Find(home, from) }
