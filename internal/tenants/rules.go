package tenants

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

// Rules are the policies of a home's tenants, as files.
type Rules struct {
	Folders
	UID           int    // whose home it is
	Path          string // policy.path of the configuration: the default tenant's; "": in the home
	Elsewhere     string // policy.tenants: the folder of all others; "": in those of the home
	DenyUnmatched bool   // proxy.unmatched: deny
}

// Faults are why policies cannot be read, by tenant.
type Faults map[runtime.Tenant]error

// Err is all of them as one, nil when there is none.
func (f Faults) Err() error {
	var all []error
	for _, t := range slices.Sorted(maps.Keys(f)) {
		all = append(all, f[t])
	}
	if len(all) == 1 {
		return all[0]
	}
	return runtime.Invalid(errors.Join(all...), "correct the files; see what is in force with: kimbap status")
}

// File is where the rules of a tenant are: for the default one policy.path or the home's own;
// for others NAME.yaml or NAME in the folder policy.tenants, or the file in the tenant's folder
// of the home.
func (r Rules) File(t runtime.Tenant) string {
	if t == runtime.DefaultTenant {
		if r.Path != "" {
			return r.Path
		}
		return r.Home.Policy()
	}
	if r.Elsewhere != "" {
		path := filepath.Join(r.Elsewhere, string(t))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return path
		}
		return path + ".yaml"
	}
	return filepath.Join(r.Home.Tenant(t), RulesName)
}

// Read reads the policies of all tenants, each by itself, with their conditions checked against
// the actions: one that is not in the set is in the faults.
func (r Rules) Read(actions policy.Actions) (policy.Set, Faults) {
	set, wrong := policy.Set{}, Faults{}
	for _, t := range r.All() {
		p, err := r.read(t, actions)
		if err != nil {
			wrong[t] = err
			continue
		}
		set[t] = p
	}
	return set, wrong
}

// read loads a tenant's policy. One that is needed and was moved away, or not mounted, is no
// default, which may allow more than it did; one look decides that, since it may come and go.
func (r Rules) read(t runtime.Tenant, actions policy.Actions) (*policy.Policy, error) {
	path := r.File(t)
	for _, name := range policy.Names(path) {
		if r.inHome(name) {
			continue
		}
		if err := home.CheckWriters(name, r.UID); err != nil {
			return nil, err
		}
	}
	p, err := policy.Existing(path, actions)
	if err == nil {
		return r.Narrowed(p), nil
	}
	if lost := r.AreThere(t); lost != nil {
		return nil, lost
	}
	if errors.Is(err, fs.ErrNotExist) && !r.Needed(t) {
		return r.Narrowed(policy.Default()), nil
	}
	return nil, runtime.Invalid(err, "correct the file; see what is in force with: kimbap status")
}

// Narrowed is a policy as the configuration has it for hosts that have no service.
func (r Rules) Narrowed(p *policy.Policy) *policy.Policy {
	if r.DenyUnmatched {
		return p.DenyUnmatched()
	}
	return p
}

// Needed reports whether a tenant's rules must be there: those of one that was made, and those
// that policy.path names. Without it the home's own file may be missing.
func (r Rules) Needed(t runtime.Tenant) bool { return t != runtime.DefaultTenant || r.Path != "" }

// AreThere refuses a tenant that was made and has lost its rules, and a policy.path that leads
// to nothing.
func (r Rules) AreThere(t runtime.Tenant) error {
	if !r.Needed(t) {
		return nil
	}
	path := r.File(t)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if t == runtime.DefaultTenant {
			return &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: "there is no policy where policy.path says: there is no " + path, Err: err,
				Hint: "put it back, or correct policy.path (config.yaml, or KIMBAP_POLICY_PATH); without it policy.yaml in the home is read",
			}
		}
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("tenant %s has no policy: there is no %s", t, path), Err: err,
			Hint: fmt.Sprintf("put it back, or begin with a copy of the default tenant's: cp %s %s", runtime.Quote(r.File(runtime.DefaultTenant)), runtime.Quote(path)),
		}
	}
	return nil
}

// inHome reports whether a file is in the home, where nobody else can reach it, and not
// only a link to it.
func (r Rules) inHome(file string) bool {
	dir, err1 := filepath.EvalSymlinks(r.Home.Dir)
	leads, err2 := filepath.EvalSymlinks(file)
	return err1 == nil && err2 == nil && strings.HasPrefix(leads, dir+string(filepath.Separator))
}

// Writable is the file to write when a tenant's rules are changed: what a link leads to, so
// that the link stays. One that others can write is refused: with what they wrote into it
// it would become a file of ours.
func (r Rules) Writable(t runtime.Tenant) (string, error) {
	file := r.File(t)
	leads, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(file); err == nil {
			return "", &runtime.Error{
				Code: runtime.CodeInvalidInput, Msg: file + " is a link that leads to no file", Hint: "put back what it leads to, or remove the link",
			}
		}
		return file, nil
	}
	if err == nil && !r.inHome(leads) {
		err = home.CheckWriters(leads, r.UID)
	}
	return leads, err
}
