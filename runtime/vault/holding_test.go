package vault_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

// Of a value that holds several secrets each is told from other texts, known by its
// fingerprint and kept out of the log; what stands beside them is not. Those that come and go
// leave the others where they are.
func TestThePartsOfAValueAreSecrets(t *testing.T) {
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	parts := func(value runtime.Secret) (out []runtime.Secret) {
		for _, word := range strings.Fields(value.Reveal()) {
			if secret, ok := strings.CutPrefix(word, "secret="); ok {
				out = append(out, runtime.NewSecret(secret))
			}
		}
		return out
	}
	v, err := vault.New(vault.Options{Store: newMemory(), Key: key, Clock: newRig(t).clock.Now, Words: fields, Parts: parts})
	if err != nil {
		t.Fatal(err)
	}
	r := rig{Vault: v}
	if err := v.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.set(t, tenant, "plain", "a-plain-key-0001")
	r.set(t, tenant, "grant", "at=login.example.test secret=refresh-0001 secret=client/secret")
	holds, err := v.Holding(t.Context(), tenant, 4)
	if err != nil {
		t.Fatal(err)
	}
	known, err := v.Known(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"refresh-0001": true, "client/secret": true, "a-plain-key-0001": true, "login.example.test": false, "at=login.example.test": false} {
		if holds(text) != want || holds("x"+text+"y") != want || known(text) != want {
			t.Errorf("%s: held %v, in a text %v, known %v, want %v", text, holds(text), holds("x"+text+"y"), known(text), want)
		}
	}
	r.value(t, tenant, "plain")
	for i := range 1100 { // renewals of half a year
		if err := v.Replace(t.Context(), tenant, "grant", stored(t, v), runtime.NewSecret("secret=access-"+strings.Repeat("x", i))); err != nil {
			t.Fatal(err)
		}
	}
	var live []string
	for _, value := range v.Live() {
		live = append(live, value.Reveal())
	}
	if !slices.Contains(live, "a-plain-key-0001") || !slices.Contains(live, "access-"+strings.Repeat("x", 1099)) || len(live) > 1024 {
		t.Errorf("of %d values the log hides, one is missing", len(live))
	}
}

func stored(t *testing.T, v *vault.Vault) runtime.Secret {
	t.Helper()
	c, err := v.Credential(t.Context(), tenant, bearer("grant"))
	if err != nil {
		t.Fatal(err)
	}
	return c.Value
}

// A text that is a stored value, or holds one of some length, is told from others: the
// variable of a program, say.
func TestTextsThatHoldAStoredValueAreTold(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", "long-enough-to-look-for")
	r.set(t, tenant, "pin", "123")
	r.set(t, tenant, "four", "wxyz")
	holds, err := r.Holding(t.Context(), tenant, 4)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"long-enough-to-look-for": true, "https://me:long-enough-to-look-for@host/": true, "123": true,
		"12345": false, "a wxyz": true, "long-enough-to-look": false, "": false,
	} {
		if holds(text) != want {
			t.Errorf("%q: held is %v, want %v", text, !want, want)
		}
	}
	r.set(t, tenant, "account", "AC0123456789")
	r.set(t, tenant, "both", "long-enough-to-look-for")
	if holds, err = r.Holding(t.Context(), tenant, 4, "account", "both"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"AC0123456789": false, "long-enough-to-look-for": true} { // the second is a secret under another name
		if holds(text) != want {
			t.Errorf("of an open name, %q: held is %v, want %v", text, !want, want)
		}
	}
}

// What has expired is of no use to whoever holds it, and is taken out of a text all the same;
// what must be fetched is in neither. Looking at a value is no use of it.
func TestWhatIsTakenOutOfATextIsMoreThanIsHeld(t *testing.T) {
	s := &store{value: "fetched-value"}
	r := referenceRig(t, s)
	r.set(t, tenant, "n", "stored-value")
	if _, err := r.SetUntil(t.Context(), tenant, "old", runtime.NewSecret("expired-value"), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	r.refer(t, "far", time.Minute)
	r.set(t, "b", "theirs", "value-of-theirs")
	r.clock.Advance(time.Hour)
	holds, err := r.Holding(t.Context(), tenant, 4)
	if err != nil {
		t.Fatal(err)
	}
	without, err := r.Without(t.Context(), tenant, func(value runtime.Secret, text string) string {
		return strings.ReplaceAll(text, value.Reveal(), "*")
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		held bool
		left string
	}{
		"stored-value": {true, "*"}, "expired-value": {false, "*"}, "fetched-value": {false, "fetched-value"}, "value-of-theirs": {false, "value-of-theirs"}, "": {},
	} {
		if holds(text) != want.held || without(text) != want.left {
			t.Errorf("%q: held %v, left %q", text, holds(text), without(text))
		}
	}
	for name, want := range map[string]bool{"n": true, "old": false, "far": false, "none": false} {
		shown := ""
		found, err := r.Look(t.Context(), tenant, name, func(value runtime.Secret) { shown = value.Reveal() })
		if err != nil || found != want || (shown == "stored-value") != want || shown != "" && !want {
			t.Errorf("%s: found %v, shown %q, %v", name, found, shown, err)
		}
	}
	if err := r.Flush(t.Context()); err != nil || len(r.store.touched) > 0 || s.count() > 0 {
		t.Errorf("that was a use: %v, %d fetches, %v", r.store.touched, s.count(), err)
	}
}

// Who cannot know what is stored is told so: no text passes for one that holds nothing.
func TestALockedVaultDoesNotSayThatATextHoldsNothing(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	mute := func(reason runtime.Reason) {
		t.Helper()
		r.Forget()
		holds, err := r.Holding(t.Context(), tenant, 4)
		wants(t, err, runtime.CodeVaultLocked, reason)
		without, err := r.Without(t.Context(), tenant, func(_ runtime.Secret, text string) string { return text })
		wants(t, err, runtime.CodeVaultLocked, reason)
		found, err := r.Look(t.Context(), tenant, "gh.token", func(runtime.Secret) { t.Error("it was shown") })
		wants(t, err, runtime.CodeVaultLocked, reason)
		if holds != nil || without != nil || found {
			t.Error("there is an answer")
		}
	}
	edit(r, func(row *vault.Sealed) { row.Version++ })
	mute(runtime.ReasonTampered)
	r.Lock()
	mute(runtime.ReasonLocked)
}
