package installer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/catalog"
	"github.com/kimbap-run/kimbap/services/review"
)

// Ensure returns an installed service, installing it from the catalogue
// when needed.
func (k Keeper) Ensure(ctx context.Context, name string) (*services.Service, []string, error) {
	if s, ok := k.Services.Current().Service(name); ok {
		return s, nil, nil
	}
	if !slices.Contains(catalog.Names(), name) || slices.Contains(k.Disabled(), name) { // which stays out, and its file as it is
		return nil, nil, k.Unknown(name)
	}
	s, err := k.InstallService(ctx, name, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, []string{s.Name}, nil
}

// Siblings installs what else in the catalogue uses the credential. One
// that needs values for its variables waits until somebody gives them, and one that is
// disabled until it is enabled.
func (k Keeper) Siblings(ctx context.Context, ref string) ([]string, error) {
	var out []string
	disabled := k.Disabled()
	known, err := catalog.Heads()
	if err != nil {
		return nil, err
	}
	for _, s := range known {
		if _, ok := k.Services.Current().Service(s.Name); ok || slices.Contains(disabled, s.Name) {
			continue
		}
		if s.Auth.Ref != ref || len(s.Unset) > 0 || s.Adapter != "http" { // a program gets a key when it is asked for by name
			continue
		}
		if _, err := k.InstallService(ctx, s.Name, nil); err != nil {
			return out, err
		}
		out = append(out, s.Name)
	}
	return out, nil
}

// serviceBytes reads a service file: an address, a path, or a name of the
// catalogue.
func (k Keeper) serviceBytes(ctx context.Context, from string) (file string, data []byte, err error) {
	if IsURL(from) {
		data, err = k.fetch(ctx, from, services.MaxFile)
		return path.Base(from), data, err
	}
	if isFile(from) {
		data, err = system.ReadUpTo(from, services.MaxFile+1)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, &runtime.Error{Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound, Msg: "there is no file " + from, Hint: "check the path, or give a name of: kimbap service list --catalog"}
		}
		if err != nil {
			err = unreadable(err)
		}
		return from, data, err
	}
	data, err = catalog.Read(from)
	if err != nil {
		return "", nil, k.Unknown(from)
	}
	return from + ".yaml", data, nil
}

// Review is what an installed service brings, for the person who installed it.
type Review = review.Report

// Install says what to install.
type Install struct {
	From   string // an https address (with #sha256=HEX to demand a content), a path, or a name of the catalogue
	Vars   map[string]string
	Update bool // an address may hold something else than it did, or than the service whose name it has
}

// InstallService installs a service file or a service of the catalogue.
func (k Keeper) InstallService(ctx context.Context, from string, vars map[string]string) (*services.Service, error) {
	r, err := k.Install(ctx, Install{From: from, Vars: vars})
	if err != nil {
		return nil, err
	}
	return r.Service, nil
}

// Install installs a service and says what it brings. What was fetched is pinned
// by its hash.
func (k Keeper) Install(ctx context.Context, i Install) (*Review, error) {
	from, demanded, err := i.address()
	if err != nil {
		return nil, err
	}
	file, data, err := k.serviceBytes(ctx, from)
	if err != nil {
		return nil, err
	}
	pin := home.Pin{URL: from, SHA256: sumOf(data)}
	unlock, err := k.Home.LockFiles(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	locked, err := k.Home.ReadPins()
	if err == nil && IsURL(from) {
		err = locked.Check(from, demanded, pin.SHA256, i.Update)
	}
	if err != nil {
		return nil, err
	}
	mayReplace := func(name string) error {
		known := locked.Services[name]
		if !IsURL(from) || i.Update || known.URL == from || known.SHA256 == pin.SHA256 {
			return nil
		}
		return k.poses(name, "kimbap service install "+runtime.Quote(i.From)+" --update")
	}
	return k.place(ctx, file, data, i.Vars, mayReplace, func(s *services.Service) (undo func(), err error) {
		return k.note(locked, s, from, pin)
	})
}

// note notes where the file of a service is from, in the place of what was known of it:
// an address with its pin, a name of the catalogue, or, with any other, the owner.
func (k Keeper) note(locked *home.Pins, s *services.Service, from string, pin home.Pin) (undo func(), err error) {
	former := home.Pins{Version: locked.Version, Services: maps.Clone(locked.Services), Catalogue: maps.Clone(locked.Catalogue), Own: maps.Clone(locked.Own)}
	was := locked.Forget(s.Name)
	shipped, err := catalog.Read(s.Name)
	switch {
	case IsURL(from):
		locked.Services[s.Name] = pin
	case slices.Contains(catalog.Names(), from):
		locked.Catalogue[s.Name] = s.Digest
	case err == nil: // the owner's, under a name of the catalogue
		locked.Own[s.Name] = sumOf(shipped)
	case !was:
		return func() {}, nil
	}
	return func() { _ = k.Home.WritePins(&former) }, k.Home.WritePins(locked)
}

// sumOf is the SHA-256 of a file, as services.lock has it.
func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// address is where the file is, and the SHA-256 that its content must have, "" for any:
// only an address can demand one.
func (i Install) address() (from, demanded string, err error) {
	from, fragment, found := strings.Cut(i.From, "#")
	if !IsURL(i.From) || !found {
		return i.From, "", nil
	}
	demanded, isHash := strings.CutPrefix(fragment, "sha256=")
	if !isHash || demanded == "" { // an empty one demands nothing
		return "", "", &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "an address may end in #sha256=HEX, and in nothing else after #", Hint: "kimbap service install --help"}
	}
	return from, demanded, nil
}

// unvalued refuses a service whose hosts lack a value, with the command that gives it. Where
// another is given, which may be a misspelled one, [services.Prepare] says both.
func unvalued(s *services.Service, vars map[string]string) error {
	for name := range vars {
		if !slices.Contains(s.Unset, name) {
			return nil
		}
	}
	var names, flags []string
	for _, name := range s.Unset {
		if _, given := vars[name]; !given {
			names, flags = append(names, name), append(flags, "--var "+name+"=VALUE")
		}
	}
	if len(names) == 0 {
		return nil
	}
	e := &runtime.Error{
		Code: runtime.CodeInvalidInput, Hint: "the same command with " + strings.Join(flags, " "),
		Msg: fmt.Sprintf("the service %s needs a value for its variable %s", s.Name, strings.Join(names, " and ")),
	}
	if slices.Contains(catalog.Names(), s.Name) {
		e.Hint = "kimbap service install " + s.Name + " " + strings.Join(flags, " ")
	}
	return e
}

// place installs the bytes of a service file, if mayReplace says so of its name.
// Pin is called with the service before its file is there: a file without its pin is not
// held to what was looked at, and a pin without its file holds nothing, should it outlive
// its undoing. The caller has the lock of the home's files.
func (k Keeper) place(ctx context.Context, file string, data []byte, vars map[string]string, mayReplace func(name string) error, pin func(*services.Service) (undo func(), err error)) (*Review, error) {
	if checked, err := services.Parse(file, data); err == nil {
		if err := k.Check(checked); err != nil {
			return nil, runtime.Invalid(err, "correct the file, then: kimbap service validate "+runtime.Quote(file))
		}
		if err := squats(checked, data); err != nil {
			return nil, err
		}
		if err := mayReplace(checked.Name); err != nil {
			return nil, err
		}
		if err := unvalued(checked, vars); err != nil {
			return nil, err
		}
	}
	ready, err := services.Prepare(k.Home.Services(), file, data, vars)
	if unread := (*fs.PathError)(nil); errors.As(err, &unread) { // of the services that are there
		return nil, k.notPlaced(err)
	}
	if err != nil {
		fix := "correct the file, then: kimbap service validate " + runtime.Quote(file)
		if rival := rivalOf(err, file, data); rival != "" { // validate looks at the file alone, and finds nothing
			fix = "correct the file, or put the other out of force first: kimbap service disable " + rival
		}
		return nil, runtime.Invalid(err, fix)
	}
	s := ready.Service
	if err := k.Fits(s); err != nil {
		return nil, err
	}
	old := k.former(s.Name)
	if err := k.Within(ctx, "service.install", s.Name, s.Digest, func() error {
		undo, err := pin(s)
		if err == nil {
			if err = ready.Write(); err != nil {
				undo()
			}
		}
		return k.notPlaced(err)
	}); err != nil {
		return nil, err
	}
	err = k.Reload()
	if k.Broken {
		err = nil // it is of another file, and was told
	}
	return review.Of(s, old, sha256.Sum256(data)), err
}

// rivalOf is the installed service that this file cannot be beside, "" when the error is
// of the file itself.
func rivalOf(err error, file string, data []byte) string {
	s, unread := services.Parse(file, data)
	if unread != nil {
		return ""
	}
	for _, name := range rivals(err) {
		if name != s.Name {
			return name
		}
	}
	return ""
}

// notPlaced is the error of a service that is as it should be, and could not be put there.
func (k Keeper) notPlaced(err error) error {
	if err == nil {
		return nil
	}
	return &runtime.Error{
		Code: runtime.CodeInternal, Reason: runtime.ReasonStorageUnavailable, Msg: err.Error(),
		Hint: "check the owner of " + runtime.Quote(k.Home.Services()) + ", that it can be written, and the disk's free space", Err: err,
	}
}

// Shipped reports whether the file of an installed service is as it was written from the
// catalogue, with this SHA-256, or is the catalogue's of today but for the values of its
// variables: what the owner wrote or corrected is nowhere else.
func (k Keeper) Shipped(s *services.Service, written string) bool {
	here, err := os.ReadFile(filepath.Join(k.Home.Services(), s.Name+".yaml"))
	if err != nil {
		return false
	}
	if sum := sha256.Sum256(here); hex.EncodeToString(sum[:]) == written {
		return true
	}
	data, err := catalog.Read(s.Name)
	if err != nil {
		return false
	}
	lines := strings.Split(string(here), "\n")
	return slices.EqualFunc(strings.Split(string(data), "\n"), lines, func(theirs, ours string) bool {
		key, value, _ := strings.Cut(theirs, ":")
		filled := (key == "base_url" || key == "hosts") && strings.Contains(value, "{")
		return theirs == ours || filled && strings.HasPrefix(ours, key+":")
	})
}
