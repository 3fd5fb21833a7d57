package vault_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

func TestRotateSecret(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if _, err := r.SetUntil(ctx, tenant, "n", runtime.NewSecret("old-value"), []string{host, "b.example:443"}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	version, err := r.Rotate(ctx, tenant, "n", runtime.NewSecret(canary), time.Time{})
	if err != nil || version != 2 {
		t.Fatalf("version %d, %v", version, err)
	}
	c, err := r.Credential(ctx, tenant, bearer("n"))
	if err != nil || c.Value.Reveal() != canary || len(c.Authorities) != 2 || c.Version != 2 {
		t.Errorf("%+v %v", c, err)
	}
	r.clock.Advance(2 * time.Hour)
	if r.value(t, tenant, "n") != canary {
		t.Error("the new value ends when the old one would have")
	}
	_, err = r.Rotate(ctx, tenant, "n", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, "")
	_, err = r.Rotate(ctx, tenant, "none", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
	_, err = r.Rotate(ctx, "b", "n", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
	_, err = r.Rotate(ctx, tenant, "n", runtime.Secret{}, time.Time{})
	wants(t, err, runtime.CodeInvalidInput, "")
	_, err = r.Rotate(ctx, tenant, "n", runtime.NewSecret("newer"), r.clock.Now())
	wants(t, err, runtime.CodeInvalidInput, "")
	if len(r.store.rows) != 1 {
		t.Error("the old version is kept")
	}
}

// A value that another store keeps is renewed there.
func TestAReferenceIsNotRotatedHere(t *testing.T) {
	r := referenceRig(t, &store{value: "fetched"})
	r.refer(t, "n", time.Minute)
	_, err := r.Rotate(t.Context(), tenant, "n", runtime.NewSecret(canary), time.Time{})
	wants(t, err, runtime.CodeInvalidInput, "")
	if got := r.value(t, tenant, "n"); got != "fetched" {
		t.Errorf("the value is %q", got)
	}
}

// A renewal takes the place of the value that it was made of, with its hosts and its end, and
// of nothing that was stored meanwhile.
func TestReplaceTakesThePlaceOfOneValueOnly(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	was := runtime.NewSecret("old-value")
	if _, err := r.SetUntil(ctx, tenant, "n", was, []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := r.Replace(ctx, tenant, "n", was, runtime.NewSecret("renewed")); err != nil || r.value(t, tenant, "n") != "renewed" {
		t.Fatal(err)
	}
	if list, err := r.List(ctx, tenant); err != nil || len(list) != 1 || list[0].Version != 2 || !list[0].Expires.Equal(r.clock.Now().Add(time.Hour)) {
		t.Errorf("%+v %v", list, err)
	}
	for name, of := range map[string]runtime.Tenant{"n": tenant, "none": tenant, "of another": "b"} {
		if err := r.Replace(ctx, of, name, was, runtime.NewSecret("renewed again")); !errors.Is(err, vault.ErrReplaced) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r.value(t, tenant, "n") != "renewed" {
		t.Error("what was stored meanwhile is gone")
	}
}

// Rebind keeps value, reference and end, and nothing but Rebind widens a secret.
func TestOnlyRebindWidensASecret(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if _, err := r.SetUntil(ctx, tenant, "n", runtime.NewSecret(canary), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if v, err := r.Rebind(ctx, tenant, "n", []string{host, "b.example:443"}); err != nil || v != 2 {
		t.Fatalf("version %d, %v", v, err)
	}
	for _, hosts := range [][]string{nil, {"*:443"}, {host, ""}} {
		_, err := r.Rebind(ctx, tenant, "n", hosts)
		wants(t, err, runtime.CodeInvalidInput, "")
	}
	c, err := r.Credential(ctx, tenant, bearer("n"))
	if err != nil || c.Value.Reveal() != canary || !c.Allows("b.example:443") {
		t.Errorf("%+v %v", c, err)
	}
	r.clock.Advance(time.Hour)
	if r.value(t, tenant, "n") != "" {
		t.Error("it lives longer than it did")
	}
	_, err = r.Rebind(ctx, tenant, "none", []string{host})
	wants(t, err, runtime.CodeInvalidInput, runtime.ReasonNotFound)
}
