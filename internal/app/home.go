package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// Home is the folder, 0700, that holds everything of one user's kimbap.
type Home struct{ Dir string }

// The files of a home.
func (h Home) Config() string     { return filepath.Join(h.Dir, "config.yaml") }
func (h Home) Policy() string     { return filepath.Join(h.Dir, "policy.yaml") }
func (h Home) MasterKey() string  { return filepath.Join(h.Dir, "master.key") }
func (h Home) WrappedKey() string { return filepath.Join(h.Dir, "master.wrapped") }
func (h Home) KeyLock() string    { return filepath.Join(h.Dir, "keys.lock") }
func (h Home) Database() string   { return filepath.Join(h.Dir, "kimbap.db") }
func (h Home) Tenants() string    { return filepath.Join(h.Dir, "tenants") }
func (h Home) Services() string   { return filepath.Join(h.Dir, "services") }
func (h Home) CA() string         { return filepath.Join(h.Dir, "ca") }
func (h Home) Audit() string      { return filepath.Join(h.Dir, "audit") }
func (h Home) State() string      { return filepath.Join(h.Dir, "state") }
func (h Home) aliases() string    { return filepath.Join(h.Dir, "aliases.json") }
func (h Home) agents() string     { return filepath.Join(h.Dir, "agents.json") }
func (h Home) anchors() string    { return filepath.Join(h.CA(), "installed.json") }

// Installed reports whether the home has a service's file, in force.
func (h Home) Installed(name string) bool {
	return services.Installed(h.Services(), name)
}

// Tenant is the folder of a tenant other than the default one, whose files are
// the home's own.
func (h Home) Tenant(name runtime.Tenant) string { return filepath.Join(h.Tenants(), string(name)) }

// Exists reports whether the folder has been made a home. One of the two files
// is enough: a home that lost its database must not get an empty one.
func (h Home) Exists() bool {
	for _, file := range []string{h.Database(), h.MasterKey()} {
		if _, err := os.Lstat(file); err == nil {
			return true
		}
	}
	return false
}

// check refuses a home that is missing, that belongs to somebody else than uid,
// or that others can read. A home that is a link is judged by what it leads to.
func (h Home) check(uid int) error {
	info, err := os.Stat(h.Dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !h.Exists()) {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome,
			Msg:  fmt.Sprintf("there is no kimbap home at %s", h.Dir),
			Hint: "kimbap init",
		}
	}
	if err != nil {
		return fmt.Errorf("home: %w", err)
	}
	if owner := ownerOf(info); owner >= 0 && owner != uid {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
			Msg:  fmt.Sprintf("%s belongs to another user (uid %d)", h.Dir, owner),
			Hint: "run kimbap as that user, or choose another home: kimbap --home DIR",
		}
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
			Msg:  fmt.Sprintf("%s can be read by other users (mode %04o)", h.Dir, mode),
			Hint: "chmod 700 " + runtime.Quote(h.Dir),
		}
	}
	return nil
}

// checkWriters refuses a file or folder outside the home that others can write:
// who can write the policy decides. Nobody else can reach a file inside. A file
// that is missing is left to its reader; a folder of a file system that is
// mounted read-only, as a ConfigMap is, takes no new files from anybody.
func checkWriters(path string, uid int) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	owner, mode := ownerOf(info), info.Mode().Perm()
	if mode&0o022 == 0 && (owner <= 0 || owner == uid) || info.IsDir() && readOnly(path) {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonOpenHome,
		Msg:  fmt.Sprintf("%s can be written by other users (owner %d, mode %04o)", path, owner, mode),
		Hint: "chmod go-w " + runtime.Quote(path) + ", and own it",
	}
}

// create makes the folders. It reports whether the home is new.
func (h Home) create() (bool, error) {
	fresh := !h.Exists()
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return false, fmt.Errorf("make home: %w", err)
	}
	for _, dir := range []string{h.Services(), h.Audit(), h.State()} {
		err := os.MkdirAll(dir, 0o700)
		if errors.Is(err, syscall.EROFS) {
			return false, &runtime.Error{
				Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNoHome,
				Msg:  fmt.Sprintf("the kimbap home at %s cannot be used from here: kimbap run covers it", h.Dir),
				Hint: "send requests to the service itself; they go through kimbap, which adds the key", Err: err,
			}
		}
		if err != nil {
			return false, fmt.Errorf("make home: %w", err)
		}
	}
	return fresh, nil
}
