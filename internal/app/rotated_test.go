package app_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/certs/stores"
	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// What is in the way of a rotation is named with what mends it, and the root stays.
func TestARotationThatCannotBeFinishedLeavesTheRoot(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	before, err := k.App.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was, bundle := before.Fingerprint(), before.BundleFile()
	if err := errors.Join(os.Remove(bundle), os.Mkdir(bundle, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err = k.Open(t, "").RotateCA(t.Context(), false)
	if e := runtime.AsError(err); !strings.Contains(e.Msg, bundle) || !strings.Contains(e.Hint, "move it away") {
		t.Errorf("%v, hint %q", err, e.Hint)
	}
	if err := os.Remove(bundle); err != nil {
		t.Fatal(err)
	}
	after, err := k.Open(t, "").CA(t.Context())
	if err != nil || after.Fingerprint() != was {
		t.Errorf("the root was replaced: %v", err)
	}
}

// Once the root was replaced, an error of what follows says so.
func TestARotationThatWasNotFinishedNamesBothRoots(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	ca, err := k.App.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	was := ca.Fingerprint()
	store := filepath.Join(k.Dir, "ca", "clients", "trust.jks")
	if err := errors.Join(os.RemoveAll(store), os.MkdirAll(store, 0o700)); err != nil {
		t.Fatal(err)
	}
	_, err = k.Open(t, "").RotateCA(t.Context(), false)
	e := runtime.AsError(err)
	now, cerr := k.Open(t, "").CA(t.Context())
	if cerr != nil {
		t.Fatal(cerr)
	}
	if now.Fingerprint() == was || !strings.Contains(e.Msg, now.Fingerprint()) || !strings.Contains(e.Msg, was) || !strings.Contains(e.Hint, "no second rotation") {
		t.Errorf("%v, hint %q", err, e.Hint)
	}
}

// A trust store that still holds a root which was replaced is not well.
func TestDoctorNamesStoresThatTrustAReplacedRoot(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	ca, err := k.App.CA(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, current := range []bool{true, false} {
		e := stores.Entry{Kind: stores.NSS, Where: "/db"}.For(ca.Root(), filepath.Join(k.Dir, "none.crt"))
		if !current {
			e.Subject = "kimbap, another"
		}
		data, err := json.Marshal([]stores.Entry{e})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(k.Dir, "ca", "installed.json"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		found := k.App.Doctor(t.Context())
		at := slices.IndexFunc(found, func(f app.Finding) bool { return f.Check == "ca" })
		if at < 0 || (found[at].State == "ok") != current || !current && !strings.Contains(found[at].Fix, "nss:/db") {
			t.Errorf("the root is the current one: %t: %+v", current, found[at])
		}
	}
}
