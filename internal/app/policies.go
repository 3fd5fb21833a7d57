package app

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// PolicyFile returns where the rules are.
func (a *App) PolicyFile() string { return a.policyFile() }

// PolicyFileOf returns where the rules of a tenant are.
func (a *App) PolicyFileOf(t runtime.Tenant) string { return a.policyFileOf(t) }

// policyName is the file of a tenant's rules in its folder.
const policyName = "policy.yaml"

// policyFile is where the rules of this App's tenant are.
func (a *App) policyFile() string { return a.policyFileOf(a.tenant) }

// policyFileOf is where the rules of a tenant are: for the default one
// policy.path or the home's own; for others NAME.yaml or NAME in the folder
// policy.tenants, or the file in the tenant's folder of the home.
func (a *App) policyFileOf(t runtime.Tenant) string {
	if t == runtime.DefaultTenant {
		if path := a.config.Current().Policy.Path; path != "" {
			return path
		}
		return a.home.Policy()
	}
	if folder := a.config.Current().Policy.Tenants; folder != "" {
		path := filepath.Join(folder, string(t))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		return path + ".yaml"
	}
	return filepath.Join(a.home.Tenant(t), policyName)
}

// readPolicies reads the policies of all tenants, each by itself: one that is not
// in the set is in the faults.
func (a *App) readPolicies(actions policy.Actions) (policy.Set, faults) {
	set, wrong := policy.Set{}, faults{}
	for _, t := range a.Tenants() {
		p, err := a.readPolicy(t, actions)
		if err != nil {
			wrong[t] = err
			continue
		}
		set[t] = p
	}
	return set, wrong
}

// faults are why policies cannot be read, by tenant.
type faults map[runtime.Tenant]error

// err is all of them as one, nil when there is none.
func (f faults) err() error {
	var all []error
	for _, t := range slices.Sorted(maps.Keys(f)) {
		all = append(all, f[t])
	}
	if len(all) == 1 {
		return all[0]
	}
	return runtime.Invalid(errors.Join(all...), "correct the files; see what is in force with: kimbap status")
}

// policyIsThere refuses a tenant that was made and has lost its rules.
func (a *App) policyIsThere(t runtime.Tenant) error {
	if t == runtime.DefaultTenant {
		return nil
	}
	path := a.policyFileOf(t)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("tenant %s has no policy: there is no %s", t, path), Err: err,
			Hint: fmt.Sprintf("put it back, or begin with a copy of the default tenant's: cp %s %s", runtime.Quote(a.policyFileOf(runtime.DefaultTenant)), runtime.Quote(path)),
		}
	}
	return nil
}

// inHome reports whether a file is in the home, where nobody else can reach it, and not
// only a link to it.
func (a *App) inHome(file string) bool {
	dir, err1 := filepath.EvalSymlinks(a.home.Dir)
	leads, err2 := filepath.EvalSymlinks(file)
	return err1 == nil && err2 == nil && strings.HasPrefix(leads, dir+string(filepath.Separator))
}

// writablePolicy is the file to write when the rules are changed: what a link leads to, so
// that the link stays. One that others can write is refused: with what they wrote into it
// it would become a file of ours.
func (a *App) writablePolicy() (string, error) {
	file := a.policyFile()
	leads, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(file); err == nil {
			return "", &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: file + " is a link that leads to no file", Hint: "put back what it leads to, or remove the link",
			}
		}
		return file, nil
	}
	if err == nil && !a.inHome(leads) {
		err = home.CheckWriters(leads, a.o.UID)
	}
	return leads, err
}

// readPolicy loads a tenant's policy, its conditions checked against the actions;
// proxy.unmatched: deny narrows it for hosts that have no service. That of a tenant
// that was made must be there: one that was moved away, or not mounted, is no
// default, which may allow more than it did.
func (a *App) readPolicy(t runtime.Tenant, actions policy.Actions) (*policy.Policy, error) {
	path := a.policyFileOf(t)
	for _, name := range policy.Names(path) {
		if a.inHome(name) {
			continue
		}
		if err := home.CheckWriters(name, a.o.UID); err != nil {
			return nil, err
		}
	}
	if err := a.policyIsThere(t); err != nil {
		return nil, err
	}
	p, err := policy.Load(path, actions)
	if err != nil {
		return nil, runtime.Invalid(err, "correct the file; see what is in force with: kimbap status")
	}
	return a.narrowed(p), nil
}

// narrowed is a policy as the configuration has it for hosts that have no service.
func (a *App) narrowed(p *policy.Policy) *policy.Policy {
	if a.config.Current().Proxy.Unmatched == "deny" {
		return p.DenyUnmatched()
	}
	return p
}
