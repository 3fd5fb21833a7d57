package rest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// besides are values that hold a placeholder beside other text, in ways that some server takes
// apart.
var besides = []string{
	"Bearer %s, Bearer x", "Bearer own;%s", "Bearer own %s", "Bearer %s=", `Digest username="%s", response="1"`,
	"Key own:%s", "own,%s", "%s|own", "own%%2C%s", "token=%s&x",
}

// A placeholder that stands in the credential's place together with something else is none that
// would be replaced: where the caller's own credential passes, it is refused like one in any other
// field, with a key stored or without.
func TestAPlaceholderBesideOtherTextInThePlaceDoesNotLeave(t *testing.T) {
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Placeholders, o.PlaceholderIn = two, twoIn })
	ask := func(auth runtime.Auth, stored bool, path string, fields ...string) *runtime.Call {
		c := r.call("GET", path, fields...)
		auth.Placeholders = map[string]string{"T": "test_kimbap"}
		if c.Action.Auth = &auth; !stored {
			c.Credential = runtime.Credential{}
		}
		return c
	}
	bearer := runtime.Auth{Type: runtime.AuthBearer}
	header := runtime.Auth{Type: runtime.AuthHeader, Header: "X-Key", Prefix: "Key "}
	query := runtime.Auth{Type: runtime.AuthQuery, Query: "api_key"}
	kept, matched, keptQuery := bearer, bearer, query
	kept.Caller, matched.KeepIf, keptQuery.Caller = runtime.CallerKeep, "*", runtime.CallerKeep
	for _, mark := range []string{"test_kimbap", "other_kimbap"} {
		for _, form := range besides {
			value := fmt.Sprintf(form, mark)
			escaped := strings.NewReplacer(" ", "+", "&", "%26", `"`, "%22").Replace(value)
			for name, c := range map[string]*runtime.Call{
				"none stored":             ask(bearer, false, "/", "Authorization: "+value),
				"in another case":         ask(bearer, false, "/", "authorization: "+value),
				"beside one that is kept": ask(bearer, false, "/", "Authorization: Bearer mine", "Authorization: "+value),
				"keep":                    ask(kept, true, "/", "Authorization: "+value),
				"keep_if":                 ask(matched, true, "/", "Authorization: "+value),
				"another field":           ask(header, false, "/", "X-Key: "+value),
				"in a query":              ask(query, false, "/?a=1&api_key="+escaped),
				"in its other case":       ask(query, false, "/?API_KEY="+escaped),
				"kept in a query":         ask(keptQuery, true, "/?api_key=mine&api_key="+escaped),
			} {
				_, _, err := r.do(t, c)
				if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonForeignPlaceholder {
					t.Errorf("%s: %q: %v", name, value, err)
				}
			}
		}
	}
	equal(t, "requests", len(r.Requests()), 0)
}

// What the stored key takes the place of is not looked at in pieces, since nothing of it leaves.
func TestAPlaceholderBesideOtherTextIsOverwritten(t *testing.T) {
	for _, mark := range []string{"test_kimbap", "other_kimbap"} {
		for _, form := range besides {
			r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Placeholders, o.PlaceholderIn = two, twoIn })
			_, result := r.must(t, r.call("GET", "/", "Authorization: "+fmt.Sprintf(form, mark)))
			equal(t, "used", result.Used, runtime.CredentialStored)
			if head := string(r.Last(t).Head); strings.Contains(head, "_kimbap") || !strings.Contains(head, canary) {
				t.Errorf("%q of %s: left\n%s", form, mark, head)
			}
		}
	}
}

// The same holds of a body and of a segment of the path.
func TestAPlaceholderBesideOtherTextInABodyOrPathDoesNotLeave(t *testing.T) {
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Placeholders, o.PlaceholderIn = two, twoIn })
	const form, object = "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json"
	for _, c := range []struct{ media, body string }{
		{form, "api_key=own,test_kimbap"}, {form, "a=1&API_KEY=own%3Bother_kimbap"},
		{object, `{"api_key":"own,test_kimbap"}`}, {object, `{"api_key":{"a":"other_kimbap"}}`}, {object, `{"api_key":"own other_kimbap"}`},
	} {
		call := body(r.call("POST", "/", c.media), strings.NewReader(c.body), int64(len(c.body)))
		call.Action.Auth = &runtime.Auth{Type: runtime.AuthBody, Field: "api_key", Placeholders: map[string]string{"T": "test_kimbap"}}
		call.Credential = runtime.Credential{}
		r.refused(t, call, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder)
	}
	for _, path := range []string{"/botown,test_kimbap/x", "/bot1:other_kimbap/x", "/botxtest_kimbap/x", "/bot1%3Aother_kimbap/x"} {
		call := r.call("GET", path)
		call.Action.Auth = &runtime.Auth{Type: runtime.AuthPath, Prefix: "bot", Placeholders: map[string]string{"T": "test_kimbap"}}
		call.Action.HTTP.Segment = 1
		call.Credential = runtime.Credential{}
		r.refused(t, call, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder)
	}
	equal(t, "requests", len(r.Requests()), 0)
}
