package app

import (
	"os"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/internal/tenants"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// tenants are the folders of this home's tenants.
func (a *App) tenants() tenants.Folders { return tenants.Folders{Home: a.home} }

// rules are their policies, as the configuration in force has them.
func (a *App) rules() tenants.Rules {
	c := a.config.Current()
	return tenants.Rules{
		Folders: a.tenants(), UID: a.o.UID, Path: c.Policy.Path, Elsewhere: c.Policy.Tenants,
		DenyUnmatched: c.Proxy.Unmatched == "deny",
	}
}

// Tenants lists the tenants there are: the default one first, which always is,
// then those that have a folder, by name.
func (a *App) Tenants() []runtime.Tenant { return a.tenants().All() }

// PolicyFile returns where the rules are.
func (a *App) PolicyFile() string { return a.rules().File(a.tenant) }

// PolicyFileOf returns where the rules of a tenant are.
func (a *App) PolicyFileOf(t runtime.Tenant) string { return a.rules().File(t) }

// writeDefaultPolicy gives a new home its policy file, commented. It is there, whole, before
// anything that makes the folder a home, whatever ends this: where it was missing or cut
// then, the rules in force would be laxer than those that were asked for.
func (a *App) writeDefaultPolicy() error {
	file := a.home.Policy()
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := home.Replace(file, policy.DefaultFile(a.o.Strict), 0o600); err != nil {
		return err
	}
	return system.SyncFolder(a.home.Dir)
}
