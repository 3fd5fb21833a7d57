package vault_test

import (
	"context"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// sameNext is a wrapper that is to put the key in force in its own place, as a variable may say.
type sameNext struct{ key vault.MasterKey }

func (s sameNext) Keys(context.Context) ([]vault.MasterKey, error) {
	return []vault.MasterKey{s.key}, nil
}
func (s sameNext) Next(context.Context) (vault.MasterKey, error) { return s.key, nil }
func (s sameNext) Settle(context.Context, vault.MasterKey) error { return nil }

// A rotation to the key that is in force is refused: it would be taken for one.
func TestARotationToTheSameMasterKeyIsRefused(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "a", canary)
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.RotateMaster(t.Context(), sameNext{key})
	if e := runtime.AsError(err); err == nil || e.Code != runtime.CodeInvalidInput || e.Hint == "" {
		t.Errorf("%v", err)
	}
	r.value(t, tenant, "a")
}
