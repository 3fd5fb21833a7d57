package app

import "github.com/kimbap-run/kimbap/internal/connected"

// What the command tells of a kimbap elsewhere; see [App.Here].
type (
	Machine             = connected.Machine
	ConnectedOptions    = connected.RunOptions
	RemoteOptions       = connected.BareOptions
	ForwardOptions      = connected.ForwardOptions
	EnvConnectedOptions = connected.EnvOptions
)

// Here is this machine's side of a kimbap elsewhere. The App need not be open: nothing
// of its home is used.
func (a *App) Here() *Machine {
	return connected.New(connected.Options{Home: a.home.Dir, Env: a.o.Env, Clock: a.o.Clock, Nameless: a.o.Nameless})
}

// ServerFolder is the folder, in that of a user's caches, of what the programs of
// this machine need of one server.
func ServerFolder(caches, server string) string { return connected.Folder(caches, server) }
