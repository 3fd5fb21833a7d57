package rest_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// No key of the caller's goes beside the stored one, be it that the caller's is kept where it
// stands in the place of the stored one.
func TestNoOtherKeyGoesBesideTheStoredOne(t *testing.T) {
	for _, caller := range []runtime.CallerAuth{"", runtime.CallerReplace, runtime.CallerKeep} {
		for _, fields := range [][]string{
			{"X-Api-Key: mine"},
			{"X-Api-Key: mine", "Authorization: Bearer test_kimbap"},
			{"x_api_key: mine", "Accept: */*"},
		} {
			r := newRig(t, servicestest.Options{})
			c := r.call("GET", "/", fields...)
			c.Action.Auth.Caller = caller
			_, result := r.must(t, c)
			equal(t, "used", result.Used, runtime.CredentialStored)
			if head := string(r.Last(t).Head); strings.Contains(head, "mine") || !strings.Contains(head, canary) {
				t.Errorf("caller %q, %q: left\n%s", caller, fields, head)
			}
		}
	}
	r := newRig(t, servicestest.Options{})
	c := r.call("GET", "/", "X-Api-Key: mine", "Authorization: Bearer of-mine")
	c.Action.Auth.Caller = runtime.CallerKeep
	_, result := r.must(t, c)
	equal(t, "used", result.Used, runtime.CredentialCaller)
	if head := string(r.Last(t).Head); !strings.Contains(head, "X-Api-Key: mine") || !strings.Contains(head, "of-mine") || strings.Contains(head, canary) {
		t.Errorf("what is kept has left as\n%s", head)
	}
}

// Where the caller's own credential is kept, in whatever field, the placeholder in the place of
// the stored one does not leave.
func TestAPlaceholderBesideWhatIsKeptDoesNotLeave(t *testing.T) {
	const login = "Authorization: Bearer sk-login-1"
	header := runtime.Auth{Type: runtime.AuthHeader, Header: "X-Key"}
	for name, c := range map[string]struct {
		auth   runtime.Auth
		path   string
		fields []string
		sent   bool
	}{
		"replace":            {header, "/", []string{login, "X-Key: test_kimbap"}, true},
		"in another case":    {header, "/", []string{login, "x-key: test_kimbap"}, true},
		"only the login":     {header, "/", []string{login}, true},
		"behind a prefix":    {runtime.Auth{Type: runtime.AuthHeader, Header: "X-Key", Prefix: "Key "}, "/", []string{login, "X-Key: Key test_kimbap"}, true},
		"in a query":         {runtime.Auth{Type: runtime.AuthQuery, Query: "key"}, "/?key=test_kimbap", []string{login}, false},
		"as a user of Basic": {header, "/", []string{login, "X-Key: Basic " + base64.StdEncoding.EncodeToString([]byte("test_kimbap:"))}, true},
	} {
		for _, caller := range []runtime.CallerAuth{runtime.CallerReplace, runtime.CallerPlaceholder} {
			r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Placeholders, o.PlaceholderIn = two, twoIn })
			call := r.call("GET", c.path, c.fields...)
			auth := c.auth
			auth.Caller, auth.KeepIf, auth.Placeholders = caller, "sk-login-*", map[string]string{"T": "test_kimbap"}
			call.Action.Auth = &auth
			if !c.sent {
				r.refused(t, call, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder)
				equal(t, name+": requests", len(r.Requests()), 0)
				continue
			}
			_, result := r.must(t, call)
			equal(t, name+": used", result.Used, runtime.CredentialCaller)
			head := string(r.Last(t).Head)
			if strings.Contains(strings.ToLower(head), "x-key") || !strings.Contains(head, "sk-login-1") || strings.Contains(head, canary) {
				t.Errorf("%s, caller %q: left\n%s", name, caller, head)
			}
		}
	}
}
