package app_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

func stored(t *testing.T, k *apptest.Kimbap, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(k.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func gone(t *testing.T, k *apptest.Kimbap, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(k.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", name, err)
	}
}

func refusedFor(t *testing.T, err error, code runtime.Code, reason runtime.Reason) {
	t.Helper()
	if e := runtime.AsError(err); e == nil || e.Code != code || e.Reason != reason {
		t.Errorf("%v, want %s %s", err, code, reason)
	}
}

// Once it is locked no file of the home holds the master key in any form, and a
// running proxy has none; the PIN brings back the very same key.
func TestALockLeavesNoMasterKey(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	withPin(t, person)
	before := stored(t, k, "master.key")
	raw, err := hex.DecodeString(strings.TrimSpace(before))
	if err != nil {
		t.Fatal(err)
	}
	lockUp(t, person)
	apptest.Within(t, soon, "the lock", func() bool { return k.App.Vault().Locked() })
	gone(t, k, "master.key")
	err = filepath.WalkDir(k.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, form := range []string{hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), string(raw), base64.StdEncoding.EncodeToString(raw), base64.StdEncoding.EncodeToString([]byte(before))} {
			if strings.Contains(string(text), form) {
				t.Errorf("%s holds the master key", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	refusedFor(t, person.UnlockVault(t.Context(), runtime.NewSecret("000000")), runtime.CodeForbidden, runtime.ReasonWrongPIN)
	refusedFor(t, person.UnlockVault(t.Context(), runtime.Secret{}), runtime.CodeForbidden, runtime.ReasonWrongPIN)
	gone(t, k, "master.key")
	if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
		t.Fatal(err)
	}
	if stored(t, k, "master.key") != before {
		t.Error("another key came back")
	}
	gone(t, k, "master.sealed")
	// Of the wrong ones, each was counted.
	lockUp(t, person)
	for range 3 {
		_ = person.UnlockVault(t.Context(), runtime.NewSecret("000000"))
	}
	refusedFor(t, person.UnlockVault(t.Context(), runtime.NewSecret(pin)), runtime.CodeRateLimited, runtime.ReasonWrongPIN)
}

// Programs of kimbap run get 407 from a lock on, also after the unlock, and are told
// what to do; other tokens are as good as before. A pause ends no run.
func TestALockEndsRuns(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Serve: app.ServeOptions{RequireToken: true}})
	person := k.Open(t, "")
	withPin(t, person)
	token := func(run string) string {
		secret, _, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: "a", Run: run, Scopes: []string{"*"}, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return "Proxy-Authorization: Bearer " + secret.Reveal()
	}
	run, agent := token("run_1"), token("")
	status := func(shown string) apptest.Answer { _, a := k.Connect(t, apptest.Authority, shown); return a }
	unlock := func() {
		t.Helper()
		if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
			t.Fatal(err)
		}
		apptest.Followed(t, person)
		apptest.Within(t, soon, "the open vault", func() bool { return k.App.Locked() == nil })
	}
	if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	apptest.Followed(t, person)
	for name, shown := range map[string]string{"a run": run, "an agent": agent} {
		if a := status(shown); a.Status != 503 {
			t.Errorf("%s in a pause: %d %+v", name, a.Status, a.Problem)
		}
	}
	unlock()
	if a := k.Tunnel(t, apptest.Authority, run).Ask(getNote); a.Status != 200 {
		t.Errorf("a run after a pause: %d %+v", a.Status, a.Problem)
	}
	if done := lockUp(t, person); done.Runs != 1 {
		t.Errorf("%+v", done)
	}
	apptest.Followed(t, person)
	ended := func(when string) {
		t.Helper()
		if a := status(run); a.Status != 407 || a.Problem.Reason != "token_revoked" || !strings.Contains(a.Body, "kimbap run -- COMMAND") {
			t.Errorf("a run %s: %d %+v", when, a.Status, a.Problem)
		}
	}
	ended("while it is locked")
	unlock()
	ended("after the unlock")
	if a := k.Tunnel(t, apptest.Authority, agent).Ask(getNote); a.Status != 200 {
		t.Errorf("an agent after the unlock: %d %+v", a.Status, a.Problem)
	}
	if !strings.Contains(ledger(t, k), `"because":"vault.lock"`) {
		t.Error("the end of the run is not in the trail")
	}
}

// Who began before the lock changes neither PIN nor master key behind it: what is
// sealed wants both as they were.
func TestNothingChangesBehindALock(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person, slow := k.Open(t, ""), k.Open(t, "")
	withPin(t, person)
	lockUp(t, person)
	change := func(n app.NewPin) error { n.Proved = runtime.NewSecret(pin); return slow.SetPin(t.Context(), n) }
	refusedFor(t, change(app.NewPin{PIN: runtime.NewSecret("another")}), runtime.CodeVaultLocked, runtime.ReasonLocked)
	refusedFor(t, change(app.NewPin{}), runtime.CodeVaultLocked, runtime.ReasonLocked)
	_, err := slow.RotateMasterKey(t.Context())
	refusedFor(t, err, runtime.CodeVaultLocked, runtime.ReasonLocked)
	if _, err := slow.LockVault(t.Context(), 0); err != nil {
		t.Errorf("locked again: %v", err)
	}
	_, err = slow.LockVault(t.Context(), time.Hour)
	refusedFor(t, err, runtime.CodeInvalidInput, "")
	if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
		t.Fatal(err)
	}
	if err := person.SetPin(t.Context(), app.NewPin{PIN: runtime.NewSecret("another"), Proved: runtime.NewSecret(pin)}); err != nil {
		t.Errorf("open again: %v", err)
	}
}

// A pause is no way to end another one earlier, without the PIN; it can be made longer,
// or a lock without an end.
func TestAPauseIsNotMadeShorter(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	withPin(t, person)
	pause := func(length time.Duration) error { _, err := person.LockVault(t.Context(), length); return err }
	for _, length := range []time.Duration{time.Hour, 2 * time.Hour} {
		if err := pause(length); err != nil {
			t.Error(err)
		}
	}
	refusedFor(t, pause(time.Hour), runtime.CodeInvalidInput, "")
	if l, locked, err := person.Vault().Ordered(t.Context()); err != nil || !locked || l.Until.Sub(l.Since) != 2*time.Hour {
		t.Errorf("%+v %v %v", l, locked, err)
	}
	if done := lockUp(t, person); !done.Sealed {
		t.Error("it cannot be sealed")
	}
}

// A command that began before the lock, as a call that waits for a person, gets no
// credential after it.
func TestACommandFromBeforeTheLockGetsNoCredential(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person, slow := k.Open(t, ""), k.Open(t, "")
	call := func() error {
		return slow.Pipeline().Do(t.Context(), &runtime.Request{
			Surface: runtime.SurfaceCall, Caller: slow.Local(), Action: "notes.get-note", Unattended: true, Args: runtime.Args{"id": 1},
		}, &app.Answer{})
	}
	if err := call(); err != nil {
		t.Fatal(err)
	}
	sent := len(k.Up.Requests())
	if _, err := person.LockVault(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	refusedFor(t, call(), runtime.CodeVaultLocked, runtime.ReasonLocked)
	if len(k.Up.Requests()) != sent {
		t.Error("it was sent")
	}
}

// A copy of the key that comes back while it is sealed is removed by the next command,
// another key is never overwritten, and a key that is not there cannot be sealed: the
// vault is closed all the same, and the error says so.
func TestOtherKeysInThePlaceOfASealedOne(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	withPin(t, person)
	key := stored(t, k, "master.key")
	if err := os.Remove(filepath.Join(k.Dir, "master.key")); err != nil {
		t.Fatal(err)
	}
	_, err := person.LockVault(t.Context(), 0)
	refusedFor(t, err, runtime.CodeVaultLocked, runtime.ReasonNoMasterKey)
	if e := runtime.AsError(err); !strings.Contains(e.Msg, "closed, but its master key is not sealed") || !strings.Contains(e.Hint, "kimbap lock again") {
		t.Errorf("%q, %q", e.Msg, e.Hint)
	}
	apptest.Within(t, soon, "the lock", func() bool { return k.App.Locked() != nil })
	k.Write(t, "master.key", key)
	if done := lockUp(t, person); !done.Sealed {
		t.Error("the second lock has not sealed it")
	}
	gone(t, k, "master.key")

	k.Write(t, "master.key", key)
	if why := k.Open(t, "next").Locked(); why == nil {
		t.Error("a copy of the key opens what is locked")
	}
	gone(t, k, "master.key")

	k.Write(t, "master.key", wrongKey)
	refusedFor(t, person.UnlockVault(t.Context(), runtime.NewSecret(pin)), runtime.CodeInvalidInput, "")
	if stored(t, k, "master.key") != wrongKey {
		t.Error("another key was overwritten")
	}
	if err := os.Remove(filepath.Join(k.Dir, "master.key")); err != nil {
		t.Fatal(err)
	}
	if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil || stored(t, k, "master.key") != key {
		t.Errorf("in the end: %v", err)
	}
}

// sealedFrom seals a key as a lock would that found it in a place, under the test's PIN.
func sealedFrom(t *testing.T, k *apptest.Kimbap, place, key string) {
	t.Helper()
	salt := []byte("sixteen of bytes")
	recipe, err := json.Marshal(map[string]any{"salt": salt, "passes": 1, "memory": 64, "threads": 1})
	if err != nil {
		t.Fatal(err)
	}
	lid := runtime.NewSecret(string(argon2.IDKey([]byte(pin), salt, 1, 64, 1, 32)))
	file := wrap.Seal{Path: filepath.Join(k.Dir, "master.sealed")}
	if err := file.Write(wrap.Sealed{Who: k.App.Operator().ID, Place: place, Recipe: recipe}, lid, []byte(key)); err != nil {
		t.Fatal(err)
	}
}

// A key that was sealed from a keyring which is gone goes into the file, where the
// configuration says file; also when somebody was killed on that way. A place that is
// none is refused, and what is sealed stays.
func TestAKeyFromAKeyringThatIsGoneGoesIntoTheFile(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	withPin(t, person)
	key := strings.TrimSpace(stored(t, k, "master.key"))
	lockUp(t, person)
	for _, place := range []string{"env", "nowhere"} {
		sealedFrom(t, k, place, key)
		if k.Open(t, place).Locked() == nil || person.UnlockVault(t.Context(), runtime.NewSecret(pin)) == nil {
			t.Errorf("sealed from %s it opens", place)
		}
		_ = stored(t, k, "master.sealed")
	}
	sealedFrom(t, k, "keyring", key)
	k.Write(t, "master.key", key) // killed before the order was lifted
	if k.Open(t, "next").Locked() == nil {
		t.Error("it opens without the PIN")
	}
	gone(t, k, "master.key")
	if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil || stored(t, k, "master.key") != key {
		t.Errorf("it is not put into the file: %v", err)
	}
	gone(t, k, "master.sealed")
}

// A database from before the lock, as a copy put back is, opens nothing by itself.
func TestASealOutlivesTheDatabaseOfTheLock(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	withPin(t, person)
	lockUp(t, person)
	if err := person.Vault().LiftLock(t.Context()); err != nil { // as if the row were older
		t.Fatal(err)
	}
	refusedLocked(t, k)
	if who, err := person.UnlockNeeds(t.Context()); err != nil || who != person.Operator().ID {
		t.Errorf("%q %v", who, err)
	}
	if err := person.UnlockVault(t.Context(), runtime.NewSecret(pin)); err != nil {
		t.Fatal(err)
	}
	_ = stored(t, k, "master.key")
}
