package vault_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// Whoever edits a row, its hosts for example, has no use of the next change by its owner: what
// does not open is not sealed anew, and does not leave in an export.
func TestWhatWasEditedIsNotSealedAnew(t *testing.T) {
	for name, change := range map[string]func(r rig) error{
		"rotate": func(r rig) error {
			_, err := r.Rotate(context.Background(), tenant, "gh.token", runtime.NewSecret("new-value"), time.Time{})
			return err
		},
		"replace": func(r rig) error {
			err := r.Replace(context.Background(), tenant, "gh.token", runtime.Secret{}, runtime.NewSecret("new-value"))
			if errors.Is(err, vault.ErrReplaced) {
				return fmt.Errorf("taken for another value: %w", err)
			}
			return err
		},
		"rebind": func(r rig) error {
			_, err := r.Rebind(context.Background(), tenant, "gh.token", []string{host})
			return err
		},
		"export": func(r rig) error {
			to, _ := boxes(t)
			data, _, err := r.Export(context.Background(), tenant, nil, to)
			if data != nil {
				return errors.New("it was exported")
			}
			return err
		},
		"import": func(r rig) error {
			_, err := r.Import(context.Background(), tenant, exportOf(t, "gh.token"), vault.ImportOptions{Force: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.set(t, tenant, "gh.token", canary)
			edit(r, func(row *vault.Sealed) { row.Authorities = []string{"evil.example:443"} })
			before := fmt.Sprint(r.store.rows)
			wants(t, change(r), runtime.CodeVaultLocked, runtime.ReasonTampered)
			if fmt.Sprint(r.store.rows) != before {
				t.Error("something was written")
			}
		})
	}
}

// exportOf is an export of one secret that another vault made.
func exportOf(t *testing.T, name string) *vault.Export {
	t.Helper()
	r := newRig(t)
	r.set(t, tenant, name, "imported-value")
	to, from := boxes(t)
	data, _, err := r.Export(t.Context(), tenant, nil, to)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.OpenExport(data, from)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// partly is a store that answers all but one question.
type partly struct {
	*memory
	not string
}

var errDisk = errors.New("disk on fire")

func (p *partly) fails(question string) error {
	if p.not == question {
		return errDisk
	}
	return nil
}

func (p *partly) Secret(ctx context.Context, tenant runtime.Tenant, name string) (vault.Sealed, bool, error) {
	if err := p.fails("secret"); err != nil {
		return vault.Sealed{}, false, err
	}
	return p.memory.Secret(ctx, tenant, name)
}

func (p *partly) Secrets(ctx context.Context, tenant runtime.Tenant) ([]vault.Sealed, error) {
	if err := p.fails("secrets"); err != nil {
		return nil, err
	}
	return p.memory.Secrets(ctx, tenant)
}

func (p *partly) Strays(ctx context.Context) (int, error) {
	if err := p.fails("strays"); err != nil {
		return 0, err
	}
	return p.memory.Strays(ctx)
}

func (p *partly) TenantKeys(ctx context.Context, tenant runtime.Tenant) ([]vault.TenantKey, error) {
	if err := p.fails("keys"); err != nil {
		return nil, err
	}
	return p.memory.TenantKeys(ctx, tenant)
}

// A store that answers some questions, and not one, leaves no secret for missing, and none for
// known: the caller's own key would pass, and a stored value stand in the trail.
func TestHalfAnAnswerIsNone(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	store := &partly{memory: r.store}
	v := unopened(t, store, keyA, r.clock)
	ask := map[string]func() error{
		"missing":  func() error { _, err := v.Credential(t.Context(), tenant, bearer("never.set")); return err },
		"known":    func() error { _, err := v.Known(t.Context(), tenant); return err },
		"holding":  func() error { _, err := v.Holding(t.Context(), tenant, 4); return err },
		"without":  func() error { _, err := v.Without(t.Context(), tenant, nil); return err },
		"list":     func() error { _, err := v.List(t.Context(), tenant); return err },
		"look":     func() error { _, err := v.Look(t.Context(), tenant, "never.set", nil); return err },
		"password": func() error { _, err := v.Credential(t.Context(), tenant, basic("gh.token", "never.set")); return err },
	}
	for not, asked := range map[string][]string{
		"secret":  {"missing", "holding", "without", "look", "password"},
		"strays":  {"missing", "look", "password"},
		"secrets": {"missing", "known", "holding", "without", "list", "look", "password"},
	} {
		for _, name := range asked {
			v.Forget()
			store.not = not
			err := ask[name]()
			if store.not = ""; !errors.Is(err, errDisk) {
				t.Errorf("%s without an answer about %s: %v", name, not, err)
			}
			wants(t, err, runtime.CodeVaultLocked, runtime.ReasonStorageUnavailable)
		}
	}
}

// A vault that has lost its check value takes no key that it could not try.
func TestAKeyThatCannotBeTriedIsNotTaken(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	r.store.check = nil
	v := unopened(t, &partly{memory: r.store, not: "keys"}, keyB, r.clock)
	wants(t, v.Open(t.Context()), runtime.CodeVaultLocked, runtime.ReasonStorageUnavailable)
	if r.store.check != nil {
		t.Error("a wrong key was taken for the right one")
	}
}

func basic(name, user string) *runtime.Auth {
	return &runtime.Auth{Type: runtime.AuthBasic, Ref: name, UsernameRef: user}
}

// The tenant without a name has the keys of files that older master keys sealed. Nothing else
// is sealed under them, and no request is of it.
func TestATenantWithoutANameHasNoKey(t *testing.T) {
	r := newRig(t)
	if _, err := r.RotateMaster(t.Context(), newKeeper(t, keyA)); err != nil || len(r.store.keys[""]) == 0 {
		t.Fatalf("%d keys of files, %v", len(r.store.keys[""]), err)
	}
	before := fmt.Sprint(r.store.keys, r.store.rows)
	for name, use := range map[string]func() error{
		"set": func() error {
			_, err := r.Set(t.Context(), "", "n", runtime.NewSecret("x"), []string{host})
			return err
		},
		"seal": func() error { _, err := r.SealFor(t.Context(), "", "approval", []byte("x"), nil); return err },
		"hash": func() error { _, err := r.HashKey(t.Context(), ""); return err },
	} {
		if err := use(); runtime.CodeOf(err) != runtime.CodeInternal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if fmt.Sprint(r.store.keys, r.store.rows) != before {
		t.Error("something was written")
	}
}

// A wrapped key is of its tenant and version, and of no others that a row says: not even where
// nothing is stored that would show it.
func TestAMovedKeyDoesNotOpen(t *testing.T) {
	for name, move := range map[string]func(r rig){
		"another version, it says": func(r rig) { r.store.keys[tenant][0].Version = 7 },
		"to a tenant without one":  func(r rig) { r.store.keys["c"] = r.store.keys["b"][:1] },
		"to a tenant's next one": func(r rig) {
			next := r.store.keys["b"][1]
			r.store.keys["c"] = []vault.TenantKey{r.store.keys["c"][0], next}
		},
		"to the version after": func(r rig) {
			next := r.store.keys["c"][1]
			next.Version = 3
			r.store.keys["c"] = append(r.store.keys["c"], next)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			for _, of := range []runtime.Tenant{tenant, "b", "c"} {
				if name == "to a tenant without one" && of == "c" {
					continue
				}
				if _, _, err := r.RotateTenantKey(t.Context(), of); err != nil {
					t.Fatal(err)
				}
			}
			move(r)
			r.Forget()
			of := runtime.Tenant("c")
			if len(r.store.keys[tenant]) > 0 && r.store.keys[tenant][0].Version == 7 {
				of = tenant
			}
			_, err := r.SealFor(t.Context(), of, "approval", []byte("x"), nil)
			wants(t, err, runtime.CodeVaultLocked, runtime.ReasonTampered)
		})
	}
}

// For a tenant that is not there any more nothing is sealed.
func TestATenantThatWasRemovedGetsNoKey(t *testing.T) {
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	v, err := vault.New(vault.Options{
		Store: r.store, Key: key, Clock: r.clock.Now,
		Exists: func(of runtime.Tenant) bool { return of != "gone" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Set(t.Context(), "there", "n", runtime.NewSecret("x"), []string{host}); err != nil {
		t.Error(err)
	}
	_, err = v.Set(t.Context(), "gone", "n", runtime.NewSecret("x"), []string{host})
	if runtime.CodeOf(err) != runtime.CodeForbidden || len(r.store.keys["gone"]) > 0 {
		t.Errorf("%v, %d keys", err, len(r.store.keys["gone"]))
	}
}

// Of a row that was edited it is said which one, and by what command a good one comes in its place.
func TestWhatWasEditedIsNamedWithItsFix(t *testing.T) {
	r := newRig(t)
	r.set(t, "acme", "gh.token", canary)
	r.store.edit("acme", "gh.token", func(row *vault.Sealed) { row.Version = 7 })
	_, err := r.Credential(t.Context(), "acme", bearer("gh.token"))
	wants(t, err, runtime.CodeVaultLocked, runtime.ReasonTampered)
	if e := runtime.AsError(err); !strings.Contains(e.Msg, `"gh.token"`) || !strings.HasPrefix(e.Hint, "kimbap --tenant acme vault set gh.token;") {
		t.Errorf("it says: %s; %s", e.Msg, e.Hint)
	}
}

// A version that somebody has made the last there can be is not counted on from.
func TestADamagedVersionIsNotCountedOn(t *testing.T) {
	for _, version := range []int{math.MaxInt, math.MinInt, -1} {
		r := newRig(t)
		r.set(t, tenant, "gh.token", canary)
		e := exportOf(t, "gh.token")
		edit(r, func(row *vault.Sealed) { row.Version = version })
		_, err := r.Set(t.Context(), tenant, "gh.token", runtime.NewSecret("new-value"), []string{host})
		wants(t, err, runtime.CodeVaultLocked, runtime.ReasonTampered)
		if hint := runtime.AsError(err).Hint; !strings.HasPrefix(hint, "kimbap vault remove gh.token,") {
			t.Errorf("the fix: %s", hint)
		}
		_, err = r.Import(t.Context(), tenant, e, vault.ImportOptions{Force: true})
		wants(t, err, runtime.CodeVaultLocked, runtime.ReasonTampered)
		if _, err := r.Remove(t.Context(), tenant, "gh.token"); err != nil {
			t.Fatal(err)
		}
		r.set(t, tenant, "gh.token", "new-value")
	}
}
