// Package tenants keeps the tenants of a home as files: a folder for each but the default one,
// which always is, and the file of its rules, in that folder or where the configuration says.
//
// It knows nothing of what is stored for a tenant: who makes or removes one has to ask the store
// and to record it first. It refuses rules that others can write, and those of a tenant that were
// there and are gone; it takes no default for them.
//
// Start reading at [Folders.Make], and at [Rules.Read] for what is in force.
package tenants

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
)

// RulesName is the file of a tenant's rules in its folder.
const RulesName = "policy.yaml"

// madeName is the file that says since when there is a tenant.
const madeName = "made"

// Folders are the tenants of one home. Nothing is remembered: each method looks at the files.
type Folders struct{ Home home.Folder }

// IsName keeps names to what can be a folder everywhere, so that no two of them are one
// folder.
func IsName(name string) bool {
	for i, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' && i > 0) {
			return false
		}
	}
	return name != "" && len(name) <= 63
}

// All lists the tenants there are: the default one first, which always is, then those that
// have a folder, by name.
func (f Folders) All() []runtime.Tenant {
	out := []runtime.Tenant{runtime.DefaultTenant}
	entries, _ := os.ReadDir(f.Home.Tenants()) // sorted; a home without it has one tenant
	for _, e := range entries {
		if e.IsDir() && IsName(e.Name()) && e.Name() != string(runtime.DefaultTenant) {
			out = append(out, runtime.Tenant(e.Name()))
		}
	}
	return out
}

// Has reports whether there is a tenant of this name.
func (f Folders) Has(name runtime.Tenant) bool {
	if name == runtime.DefaultTenant {
		return true
	}
	info, err := os.Stat(f.Home.Tenant(name))
	return IsName(string(name)) && err == nil && info.IsDir()
}

// Make makes the folder of a tenant, with rules that say the defaults, or the stricter ones.
// Born is since when it has records.
func (f Folders) Make(name runtime.Tenant, strict bool, born time.Time) error {
	if err := os.MkdirAll(f.Home.Tenants(), 0o700); err != nil {
		return err
	}
	// Made aside and moved into its place, policy and all: a proxy that looks
	// meanwhile sees no tenant, or the whole one.
	aside, err := os.MkdirTemp(f.Home.Tenants(), ".new-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(aside)
	if err := home.Replace(filepath.Join(aside, RulesName), policy.DefaultFile(strict), 0o600); err != nil {
		return err
	}
	if err := home.Replace(filepath.Join(aside, madeName), []byte(born.Format(time.RFC3339Nano)+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(aside, f.Home.Tenant(name))
}

// PutAside gives the folder of a tenant a name that no tenant can have, and returns it; ""
// when there is none.
func (f Folders) PutAside(name runtime.Tenant, now time.Time) (string, error) {
	aside := filepath.Join(f.Home.Tenants(), ".removed-"+string(name)+"-"+now.UTC().Format("20060102T150405.000000"))
	err := os.Rename(f.Home.Tenant(name), aside)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("put the folder of tenant %s aside: %w", name, err)
	}
	return aside, nil
}

// Born is since when there is a tenant: what was recorded before, under the same name, was
// another's. A tenant from before there was such a file has all records of its name, and one
// whose file cannot be read none.
func (f Folders) Born(name runtime.Tenant) time.Time {
	text, err := os.ReadFile(filepath.Join(f.Home.Tenant(name), madeName))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}
	}
	at, perr := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text)))
	if err != nil || perr != nil {
		return time.Unix(1<<40, 0)
	}
	return at
}
