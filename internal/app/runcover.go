package app

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"github.com/kimbap-run/kimbap/internal/outfit"
)

// covers are the folders and files that a program of a run must not see: the home, the trail,
// and what lies outside of the home that a secret was read from or that its links lead to.
func (a *App) covers(home string) []string {
	out := []string{home}
	if dir := a.config.Current().Audit.Dir; dir != "" {
		out = append(out, dir)
	}
	for _, file := range append(a.config.Current().SecretFiles(), a.home.Elsewhere()...) {
		info, err := os.Stat(file)
		if err != nil {
			continue // it was read, and is gone
		}
		paths := []string{file}
		if !info.IsDir() {
			paths = a.env.CoverOf(file, home).Paths
		}
		for _, path := range paths {
			if whole, err := filepath.Abs(path); err == nil && !slices.Contains(out, whole) {
				out = append(out, whole)
			}
		}
	}
	return out
}

// withhold keeps what secrets were read from by a handle of the shell's from a program of a run.
func (a *App) withhold() error {
	for _, file := range a.config.Current().SecretFiles() {
		if err := outfit.Withhold(file); err != nil {
			return err
		}
	}
	return nil
}

// warnRules says which rules a program of a run could rewrite, and what else decides: it is of
// the same user, and they are outside of the home. A mount of them that cannot be written would
// not hold, since a folder above can be renamed. Of a program that is not covered this is not
// said: it could do so in the home too.
func (a *App) warnRules(say func(string)) {
	policy := a.config.Current().Policy
	for _, of := range []struct{ path, what, them string }{
		{a.home.Config(), "the configuration", "it"},
		{cmp.Or(policy.Path, a.home.Policy()), "the rules that judge it", "them"},
		{cmp.Or(policy.Tenants, a.home.Tenants()), "the rules that judge it", "them"},
		{a.home.Services(), "the services, which say where keys go", "them"},
		{a.home.PinFile(), "the hashes of installed services", "them"},
		{a.home.Trust(), "which repositories are trusted", "it"},
		{a.home.AliasFile(), "the short names of actions", "them"},
	} {
		if a.home.Changeable(of.path) {
			say("the program can change " + of.what + ", at " + of.path + ": keep " + of.them + " in kimbap's home, or where only another user can write")
		}
	}
}
