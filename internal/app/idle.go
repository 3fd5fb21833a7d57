package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/project"
	"github.com/kimbap-run/kimbap/runtime"
)

// Idle is a stored key whose hosts no service in force has: requests to them pass as those to
// any other host, without the key, and without rules and records of their actions.
type Idle struct {
	Key   string
	Hosts []string
	Fix   string // what ends this
}

// String says what does not happen.
func (i Idle) String() string {
	return fmt.Sprintf("requests to %s do not get the stored key %s: no service in force has these hosts, and they pass as any other", strings.Join(i.Hosts, ", "), i.Key)
}

// IdleKeys are the stored keys of that kind, of every tenant. None are those of notifications,
// which kimbap itself uses, and those of projects, which are for calls made in their folders.
// While a file cannot be read nothing passes, and it is not known whose hosts they are.
func (a *App) IdleKeys(ctx context.Context) ([]Idle, error) {
	if a.fault != nil {
		return nil, nil
	}
	served, own := a.authorities(), a.notifyKeys()
	var out []Idle
	for _, tenant := range a.Tenants() {
		stored, err := a.vault.List(ctx, tenant)
		if err != nil {
			return nil, err
		}
		for _, key := range stored {
			hosts := slices.DeleteFunc(slices.Clone(key.Authorities), runtime.IsCommandAuthority)
			if len(hosts) == 0 || slices.Contains(own, key.Name) || project.Owns(key.Name) || slices.ContainsFunc(hosts, func(host string) bool { return slices.Contains(served, host) }) {
				continue
			}
			out = append(out, Idle{key.Name, hosts, a.endIdle(tenant, key.Name)})
		}
	}
	return out, nil
}

// endIdle binds a key to the hosts that its service has now, or puts that in force again where
// its file is there.
func (a *App) endIdle(tenant runtime.Tenant, key string) string {
	for _, s := range a.Services().Services() {
		if s.Auth.Ref == key || s.Auth.UsernameRef == key {
			return runtime.Command(tenant, "link "+runtime.Quote(s.Name))
		}
	}
	for name, s := range a.Disabled() {
		if s != nil && (s.Auth.Ref == key || s.Auth.UsernameRef == key) {
			return "kimbap service enable " + runtime.Quote(name)
		}
	}
	return "install a service that has them, kimbap service install FILE; or forget the key, " + runtime.Command(tenant, "vault remove "+runtime.Quote(key))
}

// notifyKeys are the names of stored keys that approval.notify has.
func (a *App) notifyKeys() (names []string) {
	for _, n := range a.config.Current().Approval.Notify {
		names = append(names, n.Secret, n.Token, n.Webhook, n.Password)
	}
	return names
}
