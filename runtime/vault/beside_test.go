package vault_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// A tenant's key that another process rotates a moment before is no change by somebody else:
// what is done with a stored secret takes the key that it is under.
func TestASecretUnderAKeyThatAnotherProcessHasRotated(t *testing.T) {
	r := newRig(t)
	other := rigOver(t, r.store, keyA)
	r.set(t, tenant, "a", canary)
	to, from := boxes(t)
	data, _, err := r.Export(t.Context(), tenant, nil, to)
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"rotate": func() error {
			_, err := r.Rotate(t.Context(), tenant, "a", runtime.NewSecret("another-value"), time.Time{})
			return err
		},
		"rebind": func() error { _, err := r.Rebind(t.Context(), tenant, "a", []string{"b.example:443"}); return err },
		"export": func() error { _, _, err := r.Export(t.Context(), tenant, nil, to); return err },
		"import": func() error {
			e, err := r.OpenExport(data, from)
			if err == nil {
				_, err = r.Import(t.Context(), tenant, e, vault.ImportOptions{Force: true})
			}
			return err
		},
	} {
		r.Forget()
		if _, err := r.Credential(t.Context(), tenant, &runtime.Auth{Type: runtime.AuthBearer, Ref: "a"}); err != nil { // with the key of now, which is kept
			t.Fatal(err)
		}
		if _, _, err := other.RotateTenantKey(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		if err := do(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
