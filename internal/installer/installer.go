// Package installer puts services into a home and takes them out: from the catalogue, a
// file, an https address, or an API description; pinned to what was looked at, in force
// or disabled. It tells how what is installed differs from what the catalogue has now.
//
// It refuses a file that does not load beside those that are there, one that would take
// the place of another by its name or an alias, and whatever else is behind an address than was
// installed from it, unless it is told so. Nothing is changed that is not recorded first.
// It decides nothing about requests, and dials nowhere itself.
//
// Start reading at [Keeper.Install], then [Keeper.Remove].
package installer

import (
	"context"
	"crypto/tls"
	"net"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/services"
)

// Keeper keeps the services of one home. All but Broken is required.
type Keeper struct {
	Home     home.Folder
	Services *services.Live
	Broken   bool // a file of the home cannot be read: that others are not in force then is no error

	Reload  func() error                                                                    // reads the services anew and puts them in force
	Check   func(*services.Service) error                                                   // what the file's own check leaves to whoever runs it
	Fits    func(*services.Service) error                                                   // why it cannot be in force with the rules that are, nil when it can
	Unknown func(name string) error                                                         // the error of a name that is not in force
	Dial    func(ctx context.Context, authority string) (net.Conn, error)                   // through the guard, to what an operator named
	Trust   func() (*tls.Config, error)                                                     // of such a connection
	Record  func(ctx context.Context, kind, service, digest string) error                   // what is about to be done
	Deprive func(ctx context.Context, kind, service, digest string) error                   // Record for what takes a service away, which no sink of the trail hinders
	Within  func(ctx context.Context, kind, service, digest string, act func() error) error // the same, and how it ended when it came to nothing
}
