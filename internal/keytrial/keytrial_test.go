package keytrial

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/call"
	"github.com/kimbap-run/kimbap/runtime"
)

// users is a vault with a user's name beside a key.
type users map[string]runtime.Credential

func (u users) Credential(_ context.Context, _ runtime.Tenant, auth *runtime.Auth) (runtime.Credential, error) {
	if auth != nil && auth.Ref == "fails" {
		return runtime.Credential{}, errors.New("locked")
	}
	return u[auth.Ref], nil
}

// Only the key that is tried has another value, and it goes where both it and the name that is
// sent with it may go.
func TestTheKeyThatIsTriedGoesNowhereElse(t *testing.T) {
	stored := users{
		"name":  {Name: "name", Value: runtime.NewSecret("me"), Authorities: []string{"a.test:443", "c.test:443"}},
		"past":  {Expired: true},
		"other": {Name: "other", Value: runtime.NewSecret("old"), Authorities: []string{"a.test:443"}},
	}
	v := Unstored{Next: stored, Ref: "key", Value: runtime.NewSecret("new"), Hosts: []string{"a.test:443", "b.test:443"}}
	get := func(auth *runtime.Auth) (runtime.Credential, error) {
		return v.Credential(t.Context(), runtime.DefaultTenant, auth)
	}
	if c, err := get(&runtime.Auth{Type: runtime.AuthBearer, Ref: "other"}); err != nil || c.Value.Reveal() != "old" {
		t.Errorf("another key: %v", err)
	}
	if c, err := get(&runtime.Auth{Type: runtime.AuthBearer, Ref: "key"}); err != nil || c.Value.Reveal() != "new" || !slices.Equal(c.Authorities, v.Hosts) {
		t.Errorf("the key, for %v: %v", c.Authorities, err)
	}
	c, err := get(&runtime.Auth{Type: runtime.AuthBasic, Ref: "key", UsernameRef: "name"})
	if err != nil || c.Username.Reveal() != "me" || !slices.Equal(c.Authorities, []string{"a.test:443"}) {
		t.Errorf("with a name, for %v: %v", c.Authorities, err)
	}
	if _, err := get(&runtime.Auth{Type: runtime.AuthBasic, Ref: "key", UsernameRef: "none"}); err == nil {
		t.Error("a name that is not stored was none")
	}
	_, err = v.Credential(t.Context(), "acme", &runtime.Auth{Type: runtime.AuthBasic, Ref: "key", UsernameRef: "none"})
	if hint := runtime.AsError(err).Hint; hint != "kimbap --tenant acme vault set none" {
		t.Errorf("hint %q", hint)
	}
	if _, err := get(&runtime.Auth{Type: runtime.AuthBasic, Ref: "key", UsernameRef: "past"}); err == nil || !strings.Contains(err.Error(), "has expired") {
		t.Errorf("a name that has expired: %v", err)
	}
	if _, err := get(&runtime.Auth{Type: runtime.AuthBasic, Ref: "key", UsernameRef: "fails"}); err == nil {
		t.Error("a name that cannot be opened was none")
	}
	if !slices.Equal(v.Hosts, []string{"a.test:443", "b.test:443"}) {
		t.Errorf("the hosts of the trial were changed: %v", v.Hosts)
	}
}

func TestWhatIsTried(t *testing.T) {
	read := func() *runtime.Action {
		return &runtime.Action{Risk: runtime.RiskLow, HTTP: &runtime.HTTPSpec{Method: "GET", Path: "/user"}}
	}
	if !readsWithoutArguments(read()) {
		t.Error("a read without arguments is not tried")
	}
	for about, change := range map[string]func(a *runtime.Action){
		"a write":          func(a *runtime.Action) { a.HTTP.Method = "POST" },
		"a risk":           func(a *runtime.Action) { a.Risk = runtime.RiskMedium },
		"any path":         func(a *runtime.Action) { a.HTTP.Path = "/files/*" },
		"a program":        func(a *runtime.Action) { a.HTTP = nil },
		"what wants words": func(a *runtime.Action) { a.Params = []runtime.Param{{Name: "id", Required: true}} },
	} {
		a := read()
		if change(a); readsWithoutArguments(a) {
			t.Errorf("%s is tried", about)
		}
	}
}

func TestARefusalInABody(t *testing.T) {
	for body, refused := range map[string]bool{
		`{"ok":false,"error":"invalid_auth"}`: true, `{"ok":true}`: false, `{}`: false, `[false]`: false, `nonsense`: false, ``: false,
	} {
		if got := refusedInBody([]byte(body)); (got != "") != refused {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// A service that leads to a page for signing in has not taken the key.
func TestARedirectIsNoProofOfAKey(t *testing.T) {
	for status, problem := range map[int]string{200: "", 204: "", 302: "the service answered 302", 404: "the service answered 404"} {
		if refused, said := judged(&call.Answer{Status: status}); refused || said != problem {
			t.Errorf("%d: refused %v, %q", status, refused, said)
		}
	}
	if refused, _ := judged(&call.Answer{Status: 401}); !refused {
		t.Error("401 is no refusal")
	}
}
