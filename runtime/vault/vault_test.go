package vault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/vault"
)

func TestNewRefusesWhatIsMissing(t *testing.T) {
	key, err := vault.ParseMasterKey(keyA)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]vault.Options{
		"Store": {Key: key, Clock: time.Now}, "Clock": {Store: newMemory(), Key: key},
	} {
		if _, err := vault.New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

func TestSetAndUse(t *testing.T) {
	r := newRig(t)
	r.set(t, tenant, "github.token", canary, "b.example:443", host, host)
	c, err := r.Credential(t.Context(), tenant, bearer("github.token"))
	if err != nil || c.Value.Reveal() != canary || c.Name != "github.token" || c.Version != 1 {
		t.Errorf("credential %+v, %v", c, err)
	}
	if !c.Allows(host) || !c.Allows("b.example:443") || c.Allows("evil.example:443") || len(c.Authorities) != 2 {
		t.Errorf("authorities %v", c.Authorities)
	}
	r.set(t, tenant, "github.token", "second")
	if got := r.value(t, tenant, "github.token"); got != "second" {
		t.Errorf("after a second Set: %q", got)
	}
	for name, auth := range map[string]*runtime.Auth{
		"nothing stored": bearer("other"), "auth none": {Type: runtime.AuthNone, Ref: "github.token"}, "zero auth": {}, "no ref": {Type: runtime.AuthBearer},
	} {
		if c, err := r.Credential(t.Context(), tenant, auth); err != nil || c.Found() {
			t.Errorf("%s: %+v %v", name, c, err)
		}
	}
	if c, err := r.Credential(t.Context(), tenant, nil); err == nil || c.Found() {
		t.Errorf("nil auth: %+v %v", c, err)
	}
	if c, err := r.Credential(t.Context(), "other", bearer("github.token")); err != nil || c.Found() {
		t.Errorf("another tenant: %+v %v", c, err)
	}
}

func TestBasicWithUserName(t *testing.T) {
	r := newRig(t)
	auth := &runtime.Auth{Type: runtime.AuthBasic, Ref: "jira.token", UsernameRef: "jira.user"}
	r.set(t, tenant, "jira.token", canary, "a.example:443", "b.example:443")
	c, err := r.Credential(t.Context(), tenant, auth)
	wants(t, err, runtime.CodeNoCredential, "")
	if c.Found() {
		t.Error("a password went out without its user name")
	}
	r.set(t, "acme", "jira.token", canary, "a.example:443")
	_, err = r.Credential(t.Context(), "acme", auth)
	if hint := runtime.AsError(err).Hint; hint != "kimbap --tenant acme vault set jira.user" {
		t.Errorf("the fix for another tenant: %q", hint)
	}
	if c, err := r.Credential(t.Context(), "b", auth); err != nil || c.Found() {
		t.Errorf("nothing is stored: %v %v", c, err)
	}
	r.set(t, tenant, "jira.user", "me@example.com", "b.example:443", "c.example:443")
	c, err = r.Credential(t.Context(), tenant, auth)
	if err != nil || c.Username.Reveal() != "me@example.com" || c.Value.Reveal() != canary {
		t.Fatalf("credential %+v, %v", c, err)
	}
	if !slices.Equal(c.Authorities, []string{"b.example:443"}) {
		t.Errorf("the pair may go to %v", c.Authorities)
	}
	if c, _ := r.Credential(t.Context(), tenant, bearer("jira.token")); len(c.Authorities) != 2 {
		t.Errorf("narrowing the pair narrowed the password: %v", c.Authorities)
	}
}

func TestASecretWithoutHostsValueOrNameIsNotStored(t *testing.T) {
	r := newRig(t)
	some := runtime.NewSecret("x")
	for name, set := range map[string]func() (int, error){
		"no host":      func() (int, error) { return r.Set(t.Context(), tenant, "n", some, nil) },
		"no port":      func() (int, error) { return r.Set(t.Context(), tenant, "n", some, []string{"api.github.com"}) },
		"any host":     func() (int, error) { return r.Set(t.Context(), tenant, "n", some, []string{"*:443"}) },
		"a port alone": func() (int, error) { return r.Set(t.Context(), tenant, "n", some, []string{":443"}) },
		"a host alone": func() (int, error) { return r.Set(t.Context(), tenant, "n", some, []string{"api.github.com:"}) },
		"an odd host":  func() (int, error) { return r.Set(t.Context(), tenant, "n", some, []string{"api\x07.example:443"}) },
		"a blank":      func() (int, error) { return r.Set(t.Context(), tenant, "a b", some, []string{host}) },
		"no UTF-8":     func() (int, error) { return r.Set(t.Context(), tenant, "a\xff", some, []string{host}) },
		"unseen":       func() (int, error) { return r.Set(t.Context(), tenant, "a\u202eb", some, []string{host}) },
		"a long name":  func() (int, error) { return r.Set(t.Context(), tenant, strings.Repeat("n", 129), some, []string{host}) },
		"a deletion": func() (int, error) {
			return r.Set(t.Context(), tenant, "n", runtime.NewSecret("ke\x7fy"), []string{host})
		},
		"an empty host": func() (int, error) { return r.Set(t.Context(), tenant, "n", some, []string{host, ""}) },
		"no value":      func() (int, error) { return r.Set(t.Context(), tenant, "n", runtime.Secret{}, []string{host}) },
		"no name":       func() (int, error) { return r.Set(t.Context(), tenant, "", some, []string{host}) },
		"a line end":    func() (int, error) { return r.Set(t.Context(), tenant, "a\nb", some, []string{host}) },
		"an escape": func() (int, error) {
			return r.Set(t.Context(), tenant, "n", runtime.NewSecret("key\x1b[201~"), []string{host})
		},
		"too large": func() (int, error) {
			return r.Set(t.Context(), tenant, "n", runtime.NewSecret(strings.Repeat("x", 1<<16+1)), []string{host})
		},
		"a blank before": func() (int, error) { return r.Set(t.Context(), tenant, "n", runtime.NewSecret(" key"), []string{host}) },
		"a blank behind": func() (int, error) {
			return r.Set(t.Context(), tenant, "n", runtime.NewSecret("key\t"), []string{host})
		},
		"blanks alone": func() (int, error) { return r.Set(t.Context(), tenant, "n", runtime.NewSecret("  "), []string{host}) },
		"a control of Latin-1": func() (int, error) {
			return r.Set(t.Context(), tenant, "n", runtime.NewSecret("key\u0085next"), []string{host})
		},
		"expired": func() (int, error) { return r.SetUntil(t.Context(), tenant, "n", some, []string{host}, r.clock.Now()) },
	} {
		version, err := set()
		if version != 0 {
			t.Errorf("%s: stored", name)
		}
		wants(t, err, runtime.CodeInvalidInput, "")
	}
	if list, err := r.List(t.Context(), tenant); err != nil || len(list) != 0 {
		t.Errorf("stored: %v %v", list, err)
	}
	r.set(t, tenant, strings.Repeat("n", 128), "-----BEGIN KEY-----\r\n\tabc\n")
}

func TestASecretIsNotUsedFromItsExpiryOn(t *testing.T) {
	r := newRig(t)
	if _, err := r.SetUntil(t.Context(), tenant, "n", runtime.NewSecret(canary), []string{host}, r.clock.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Hour - time.Microsecond)
	if r.value(t, tenant, "n") != canary {
		t.Error("expired early")
	}
	r.clock.Advance(time.Microsecond)
	if r.value(t, tenant, "n") != "" { // from memory
		t.Error("used at its expiry")
	}
	if c, err := r.Credential(t.Context(), tenant, bearer("n")); err != nil || !c.Expired || c.Found() {
		t.Errorf("that it has expired is not told: %+v, %v", c, err)
	}
	if _, err := r.Rebind(t.Context(), tenant, "n", []string{host}); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("bound anew: %v", err)
	}
	r.store.edit(tenant, "n", func(row *vault.Sealed) { row.Expires = row.Expires.Add(time.Hour) })
	r.refused(t, "n", runtime.ReasonTampered) // a longer life is an edit
}

// A user name that has expired is not said to be missing: whoever looks for it finds it.
func TestAnExpiredUserNameIsToldFromNone(t *testing.T) {
	r := newRig(t)
	for name, until := range map[string]time.Time{"key": {}, "user": r.clock.Now().Add(time.Hour)} {
		if _, err := r.SetUntil(t.Context(), tenant, name, runtime.NewSecret(canary), []string{host}, until); err != nil {
			t.Fatal(err)
		}
	}
	r.clock.Advance(time.Hour)
	for user, want := range map[string]string{"user": "has expired", "none": "is not"} {
		_, err := r.Credential(t.Context(), tenant, basic("key", user))
		if e := runtime.AsError(err); err == nil || !strings.HasSuffix(e.Msg, want) || e.Hint != "kimbap vault set "+user {
			t.Errorf("%s: %v", user, err)
		}
	}
}

func TestSetsSideBySideGetAVersionEach(t *testing.T) {
	r := newRig(t)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := r.Set(context.Background(), tenant, "n", runtime.NewSecret(fmt.Sprint("v", i)), []string{host}); err != nil {
				t.Error(err)
			}
			if _, err := r.Credential(context.Background(), tenant, bearer("n")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := r.List(t.Context(), tenant); err != nil || len(list) != 1 || list[0].Version != 20 {
		t.Errorf("after 20 Sets: %+v %v", list, err)
	}
}

func TestLiveValuesAreTheNewestOfABoundedNumber(t *testing.T) {
	r := newRig(t)
	if len(r.Live()) != 0 {
		t.Error("live values before any use")
	}
	for i := range 1500 {
		r.set(t, tenant, fmt.Sprint("n", i%3), fmt.Sprint("value-", i))
	}
	r.value(t, tenant, "n0")
	live := r.Live()
	if len(live) != 1024 || live[1023].Reveal() != "value-1499" {
		t.Errorf("%d live values, the newest %q", len(live), live[len(live)-1].Reveal())
	}
}

func TestHashesHoldForOneTenantAndItsKeys(t *testing.T) {
	r := newRig(t)
	hash := func(r rig, tenant runtime.Tenant) string {
		h, err := r.HashKey(t.Context(), tenant)
		if err != nil {
			t.Fatal(err)
		}
		return h(canary)
	}
	one := hash(r, tenant)
	if h, err := r.HashKey(t.Context(), tenant); err != nil || h("another value") == one {
		t.Errorf("two values have one hash: %v", err)
	}
	if len(one) != 64 || strings.Contains(one, canary) {
		t.Errorf("hash %q", one)
	}
	if hash(rigOver(t, r.store, keyA), tenant) != one {
		t.Error("another process has another hash")
	}
	if hash(r, "b") == one || hash(newRig(t), tenant) == one {
		t.Error("two keys give one hash")
	}
}

// What a process opens is kept out of its log, also what another one has stored; and once more
// after it was dropped, as with a lock.
func TestWhatIsOpenedIsKeptOutOfTheLog(t *testing.T) {
	before := newRig(t)
	before.set(t, tenant, "n", canary)
	r := rigOver(t, before.store, keyA)
	for range 2 {
		if hidden(r.Vault, canary) {
			t.Error("it was opened before it was needed")
		}
		r.value(t, tenant, "n")
		if !hidden(r.Vault, canary) {
			t.Error("the log would show what was opened")
		}
		r.Forget()
		r.DropLive()
	}
	r.Hide(runtime.NewSecret("made-of-it"))
	if !hidden(r.Vault, "made-of-it") {
		t.Error("the log would show what was made of it")
	}
}

// VC-014, G16: beside Credential and Live no method hands a secret out, and no
// printing shows one.
func TestNoMethodReveals(t *testing.T) {
	secret := reflect.TypeFor[runtime.Secret]()
	var holds func(in reflect.Type, depth int) bool
	holds = func(in reflect.Type, depth int) bool {
		switch {
		case in == secret || in == reflect.TypeFor[runtime.Credential]() || in == reflect.TypeFor[vault.MasterKey]():
			return true
		case depth > 4:
			return false
		}
		switch in.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Array, reflect.Chan:
			return holds(in.Elem(), depth+1)
		case reflect.Struct:
			for i := range in.NumField() {
				if in.Field(i).IsExported() && holds(in.Field(i).Type, depth+1) {
					return true
				}
			}
		}
		return false
	}
	may := []string{"Credential", "Live"}
	v := reflect.TypeFor[*vault.Vault]()
	for i := range v.NumMethod() {
		m := v.Method(i)
		for o := range m.Type.NumOut() {
			if holds(m.Type.Out(o), 0) && !slices.Contains(may, m.Name) {
				t.Errorf("%s returns %s", m.Name, m.Type.Out(o))
			}
		}
	}
	r := newRig(t)
	r.set(t, tenant, "gh.token", canary)
	c, err := r.Credential(t.Context(), tenant, bearer("gh.token"))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := r.List(t.Context(), tenant)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		for _, what := range []any{c, &c, list, r.Live(), r.Vault} {
			if text := fmt.Sprintf(verb, what); strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of %T shows the secret", verb, what)
			}
		}
	}
	if text, _ := json.Marshal([]any{c, list}); strings.Contains(string(text), canary) {
		t.Error("JSON shows the secret")
	}
}
