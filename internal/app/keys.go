package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// masterKey takes the key from where the configuration says. A vault that has
// never been opened gets a new 0600 file: that of a new home, and of one whose
// making was cut short or is under way in another process.
func (a *App) masterKey(ctx context.Context) (vault.MasterKey, error) {
	if a.config.MasterKey.Source == "env" {
		return vault.ParseMasterKey(a.config.MasterKey.Value.Reveal())
	}
	path := a.home.MasterKey()
	key, err := vault.LoadMasterKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	used, cerr := a.store.CheckValue(ctx)
	if cerr != nil {
		return key, cerr
	}
	if used != nil {
		return key, &runtime.Error{
			Code: runtime.CodeVaultLocked, Reason: runtime.ReasonNoMasterKey,
			Msg:  fmt.Sprintf("the master key %s is missing, so nothing in this vault can be opened", path),
			Hint: "put the file back (a running proxy takes it up by itself), or move the home away and start with: kimbap init", Err: err,
		}
	}
	return vault.NewMasterKeyFile(path)
}

// writeDefaultPolicy gives a new home its policy file, commented.
func (a *App) writeDefaultPolicy() error {
	file := a.home.Policy()
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	return os.WriteFile(file, policy.DefaultFile(a.o.Strict), 0o600)
}

// auditDir is audit.dir or the home's own.
func (a *App) auditDir() string {
	if dir := a.config.Audit.Dir; dir != "" {
		return dir
	}
	return a.home.Audit()
}

// redactor gives the trail its keyed hashes.
type redactor struct{ vault *vault.Vault }

// Known tells what of a tenant is stored. All but the first call of a process,
// and the first after a change, are answered from memory.
func (r redactor) Known(tenant runtime.Tenant) (func(string) bool, error) {
	return r.vault.Known(context.Background(), tenant) // reading the store does not wait for who writes
}

// Hash returns the keyed hash of a value of the tenant.
func (r redactor) Hash(tenant runtime.Tenant, value string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	hash, err := r.vault.HashKey(ctx, tenant)
	if err != nil {
		return "", err
	}
	return hash(value), nil
}
