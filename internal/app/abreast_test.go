package app_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// Where the last look did not learn from the store whether the vault was locked, a credential is
// not given on the strength of what was known before.
func TestALookThatTheStoreDidNotAnswerHasFoundNoOpenVault(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	serves := k.Open(t, "other") // which no watch keeps in step
	if _, err := app.CredentialOf(serves, t.Context(), apptest.Secret, true); err != nil {
		t.Fatalf("before the lock: %v", err)
	}
	if _, err := k.Open(t, "").LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := app.CredentialOf(serves, t.Context(), apptest.Secret, false); err != nil {
		t.Fatalf("somebody else has told it of the lock: %v", err)
	}
	if _, err := app.CredentialOf(serves, t.Context(), apptest.Secret, true); runtime.CodeOf(err) != runtime.CodeVaultLocked {
		t.Errorf("after a look without an answer: %v", err)
	}
}

// A key service may answer slowly, and the owner may lock the vault meanwhile.
func TestAKeyThatIsRenewedDuringALockOpensNothing(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	serves := k.Open(t, "other") // which no watch keeps in step
	err := app.RenewKey(serves, t.Context(), func() {
		if _, err := k.Open(t, "").LockVault(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
	})
	if runtime.CodeOf(err) != runtime.CodeVaultLocked {
		t.Errorf("renewed: %v", err)
	}
	if _, err := app.CredentialOf(serves, t.Context(), apptest.Secret, false); runtime.CodeOf(err) != runtime.CodeVaultLocked {
		t.Errorf("after it: %v", err)
	}
}
