package rest_test

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

func TestExactlyOurCredential_CL001(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	answer, result := r.must(t, r.call("GET", "/", "Authorization: Bearer attacker", "authorization: Bearer attacker2",
		"AUTHORIZATION: Basic YTpi", "X-Api-Key: attacker", "x-api-key: attacker", "X_Api_Key: attacker"))
	equal(t, "status", answer.Status, 200)
	equal(t, "used", result.Used, runtime.CredentialStored)
	last := r.Last(t)
	if got := last.Fields("Authorization"); !slices.Equal(got, []string{"Bearer " + canary}) {
		t.Errorf("Authorization: %q", got)
	}
	if strings.Contains(string(last.Head), "attacker") || strings.Contains(string(last.Head), "YTpi") {
		t.Errorf("the caller's own credential left:\n%s", last.Head)
	}
}

func TestPlaces(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("me:" + canary))
	for name, c := range map[string]struct {
		auth   runtime.Auth
		path   string
		fields []string
		body   string
		want   string // in head or body
		not    string
	}{
		"header":      {runtime.Auth{Type: runtime.AuthHeader, Header: "X-Key", Prefix: "k="}, "/", []string{"x-key: mine"}, "", "X-Key: k=" + canary + "\r\n", "mine"},
		"oauth2":      {runtime.Auth{Type: runtime.AuthOAuth2}, "/", nil, "", "Authorization: Bearer " + canary + "\r\n", "none"},
		"basic":       {runtime.Auth{Type: runtime.AuthBasic, Username: "me"}, "/", []string{"Authorization: Basic bWluZTptaW5l"}, "", "Authorization: Basic " + basic + "\r\n", "bWlu"},
		"basic ref":   {runtime.Auth{Type: runtime.AuthBasic, UsernameRef: "u"}, "/", nil, "", "Authorization: Basic " + basic + "\r\n", "none"},
		"query":       {runtime.Auth{Type: runtime.AuthQuery, Query: "key"}, "/q?a=%2f&key=mine&b&KEY=mine", nil, "", "GET /q?a=%2f&key=kbcanary-7f3a9c%2FZx%2BQ81w%3D%3D&b HTTP/1.1\r\n", "mine"},
		"query alone": {runtime.Auth{Type: runtime.AuthQuery, Query: "key"}, "/q", nil, "", "GET /q?key=kbcanary-7f3a9c%2FZx%2BQ81w%3D%3D HTTP/1.1\r\n", "none"},
		"json": {runtime.Auth{Type: runtime.AuthBody, Field: "api_key"}, "/", []string{"Content-Type: application/json"},
			`{ "n" : 1.0, "api_key":"mine" , "z": [] }`, `{ "n" : 1.0, "api_key":"` + canary + `" , "z": [] }`, "mine"},
		"json new": {runtime.Auth{Type: runtime.AuthBody, Field: "api_key"}, "/", []string{"Content-Type: application/json"},
			`{"n":1e400}`, `{"api_key":"` + canary + `","n":1e400}`, "none"},
		"form": {runtime.Auth{Type: runtime.AuthBody, Field: "k"}, "/", []string{"Content-Type: application/x-www-form-urlencoded"},
			`a=1&k=mine`, `a=1&k=kbcanary-7f3a9c%2FZx%2BQ81w%3D%3D`, "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			call := r.call("GET", c.path, c.fields...)
			call.Action.Auth = &c.auth
			call.Credential.Username = runtime.NewSecret("me")
			if c.body != "" {
				call.Request.Target.Method = "POST"
				body(call, strings.NewReader(c.body), int64(len(c.body)))
			}
			r.must(t, call)
			last := r.Last(t)
			wire := string(last.Head) + string(last.Body)
			if !strings.Contains(wire, c.want) || strings.Contains(wire, c.not) {
				t.Errorf("got:\n%s\nwant: %s\nnot: %s", wire, c.want, c.not)
			}
		})
	}
}

func TestWhoseCredentialGoes(t *testing.T) {
	const own, real, login = "Authorization: Bearer test_kimbap", "Authorization: Bearer mine", "Authorization: Bearer sk-login-1"
	for name, c := range map[string]struct {
		auth   runtime.Auth
		field  string
		stored bool
		used   runtime.CredentialUse
		code   runtime.Code
	}{
		"replace placeholder":           {runtime.Auth{}, own, true, runtime.CredentialStored, ""},
		"replace nothing":               {runtime.Auth{}, "", true, runtime.CredentialStored, ""},
		"placeholder as asked":          {runtime.Auth{Caller: runtime.CallerPlaceholder}, own, true, runtime.CredentialStored, ""},
		"placeholder inside basic":      {runtime.Auth{Caller: runtime.CallerPlaceholder}, "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x:test_kimbap")), true, runtime.CredentialStored, ""},
		"placeholder, but a real key":   {runtime.Auth{Caller: runtime.CallerPlaceholder}, real, true, "", runtime.CodeForbidden},
		"placeholder, but nothing":      {runtime.Auth{Caller: runtime.CallerPlaceholder}, "", true, "", runtime.CodeForbidden},
		"keep":                          {runtime.Auth{Caller: runtime.CallerKeep}, real, true, runtime.CredentialCaller, ""},
		"keep, but a placeholder":       {runtime.Auth{Caller: runtime.CallerKeep}, own, true, runtime.CredentialStored, ""},
		"keep_if":                       {runtime.Auth{KeepIf: "sk-login-*"}, login, true, runtime.CredentialCaller, ""},
		"keep_if, another":              {runtime.Auth{KeepIf: "sk-login-*"}, real, true, runtime.CredentialStored, ""},
		"nothing stored":                {runtime.Auth{}, real, false, runtime.CredentialCaller, ""},
		"nothing at all":                {runtime.Auth{}, "", false, runtime.CredentialNone, ""},
		"nothing stored, a placeholder": {runtime.Auth{}, own, false, "", runtime.CodeNoCredential},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			call := r.call("GET", "/")
			if c.field != "" {
				call = r.call("GET", "/", c.field)
			}
			c.auth.Type, c.auth.Placeholders = runtime.AuthBearer, map[string]string{"T": "test_kimbap"}
			call.Action.Auth = &c.auth
			if !c.stored {
				call.Credential = runtime.Credential{}
			}
			if c.code != "" {
				e := r.refused(t, call, c.code, "")
				equal(t, "requests", len(r.Requests()), 0)
				if c.code == runtime.CodeNoCredential {
					equal(t, "hint", e.Hint, "kimbap link test")
				}
				return
			}
			_, result := r.must(t, call)
			equal(t, "used", result.Used, c.used)
			if strings.Contains(string(r.Last(t).Head), "test_kimbap") {
				t.Error("a placeholder left")
			}
		})
	}
}

func TestPlaceholdersElsewhere(t *testing.T) {
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) {
		o.Placeholders, o.PlaceholderIn = two, twoIn
	})
	inBasic := "Basic " + base64.StdEncoding.EncodeToString([]byte("other_kimbap:x"))
	for _, c := range []*runtime.Call{
		r.call("GET", "/", "X-Other: other_kimbap"),
		r.call("GET", "/", "X-Other: token=other_kimbap; x"),
		r.call("GET", "/", "X-Other: "+inBasic),
		r.call("GET", "/", "Cookie: a=test_kimbap"),
		r.call("GET", "/", "Authorization: Bearer other_kimbap"),
		r.call("GET", "/", "Authorization: "+inBasic),
		r.call("GET", "/x/other_kimbap/y"),
		r.call("GET", "/x?k=other%5Fkimbap"),
		r.call("GET", "/x?other_kimbap"),
		pass(r.call("GET", "/x", "Authorization: Bearer test_kimbap")),
		r.call("GET", "/", "Other_kimbap: 1"),
		r.call("GET", "/", "X-Other_kimbap-Y: 1"),
		r.call("GET", "/", "x-TEST_KIMBAP: 1"),
		r.call("GET", "/", "X-Other%5fKimbap: 1"),
		pass(r.call("GET", "/", "x-other_kimbap: ")),
		pass(r.call("X-OTHER_KIMBAP", "/")),
		r.call("GET", "/x?other_kimbap=1"),
		r.call("GET", "/x?other_kimbap[]=1"),
		announcing(r.call("POST", "/up"), "X-Other_kimbap"),
	} {
		r.refused(t, c, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder)
	}
	equal(t, "requests", len(r.Requests()), 0)
}

// A program has one variable for all services that share a key, and many services take a bearer
// token beside the field of their own: neither placeholder leaves, and the key goes to its place.
func TestPlaceholdersThatServeAsTheKey(t *testing.T) {
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) {
		o.Placeholders, o.PlaceholderIn = two, twoIn
		o.KeyOf = func(service string) string { return map[string]string{"other": "shared", "test": "own"}[service] }
	})
	ask := func(auth runtime.Auth, stored bool, fields ...string) *runtime.Call {
		c := r.call("GET", "/", fields...)
		auth.Placeholders = map[string]string{"T": "test_kimbap"}
		if c.Action.Auth = &auth; !stored {
			c.Credential = runtime.Credential{}
		}
		return c
	}
	shared := runtime.Auth{Type: runtime.AuthBearer, Ref: "shared"}
	header := runtime.Auth{Type: runtime.AuthHeader, Ref: "own", Header: "X-Key"}
	kept, matched := header, header
	kept.Caller, matched.KeepIf = runtime.CallerKeep, runtime.Glob("mine*")
	inBasic := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("test_kimbap:other_kimbap"))
	for _, c := range []*runtime.Call{
		ask(shared, true, "Authorization: Bearer other_kimbap"),
		ask(header, true, "Authorization: Bearer test_kimbap"),
		ask(header, true, "authorization: test_kimbap", "X_Api_Key: test_kimbap"),
	} {
		_, result := r.must(t, c)
		equal(t, "used", result.Used, runtime.CredentialStored)
		if head := string(r.Last(t).Head); strings.Contains(head, "_kimbap") || strings.Count(head, canary) != 1 {
			t.Errorf("left:\n%s", head)
		}
	}
	sent := len(r.Requests())
	for _, c := range []*runtime.Call{
		ask(shared, true, "X-Other: other_kimbap"),
		ask(header, true, "Authorization: Bearer other_kimbap"),
		ask(header, true, inBasic),
		ask(header, true, "Cookie: test_kimbap"),
		ask(header, true, "Authorization: Bearer x,test_kimbap"),
		ask(header, false, "Authorization: Bearer test_kimbap"),
		ask(kept, true, "Authorization: Bearer test_kimbap", "X-Key: mine"),
		ask(matched, true, "Authorization: Bearer test_kimbap", "X-Key: mine"),
	} {
		r.refused(t, c, runtime.CodeForbidden, runtime.ReasonForeignPlaceholder)
	}
	equal(t, "requests", len(r.Requests()), sent)
}

// Slack takes a token from a form before that of the header, and many of its clients send both:
// the placeholder does not leave, and no other value of the field is touched.
func TestAPlaceholderInAFormThatIsReadForAKeyDoesNotLeave(t *testing.T) {
	const form, text = "Content-Type: application/x-www-form-urlencoded", "Content-Type: text/plain"
	for name, c := range map[string]struct{ field, media, sent, want string }{
		"between":         {"token", form, "a=%61&token=test_kimbap&b=+", "a=%61&b=+"},
		"first, escaped":  {"token", form, "%74oken=test%5Fkimbap&a=1&a=2", "a=1&a=2"},
		"alone":           {"token", form, "token=test_kimbap", ""},
		"another value":   {"token", form, "token=mine&a=1", "token=mine&a=1"},
		"another field":   {"token", form, "text=test_kimbap&a=1", "text=test_kimbap&a=1"},
		"part of a value": {"token", form, "token=test_kimbap.&a", "token=test_kimbap.&a"},
		"no form":         {"token", text, "token=test_kimbap", "token=test_kimbap"},
		"none declared":   {"", form, "token=test_kimbap", "token=test_kimbap"},
		"long":            {"token", form, "token=test_kimbap&a=" + strings.Repeat("x", 1<<20), "token=test_kimbap&a=" + strings.Repeat("x", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			call := body(r.call("POST", "/", c.media, "Authorization: Bearer test_kimbap"), strings.NewReader(c.sent), int64(len(c.sent)))
			call.Action.Auth.Form = c.field
			_, result := r.must(t, call)
			equal(t, "used", result.Used, runtime.CredentialStored)
			last := r.Last(t)
			if got := string(last.Body); got != c.want {
				t.Errorf("left %.60q of %d bytes, want %.60q", got, len(got), c.want)
			}
			if got := last.Fields("Authorization"); !slices.Equal(got, []string{"Bearer " + canary}) {
				t.Errorf("Authorization: %q", got)
			}
			declared := slices.Contains(result.Changed, runtime.Change{Kind: runtime.ChangePlaceholder, Name: "token"})
			equal(t, "declared", declared, c.sent != c.want)
		})
	}
}

// two knows the placeholders of two services, twoIn finds them in a name.
func two(v string) (string, bool) {
	service, ok := map[string]string{"other_kimbap": "other", "test_kimbap": "test"}[v]
	return service, ok
}

func twoIn(name string) (string, bool) {
	for _, service := range []string{"other", "test"} {
		if strings.Contains(strings.ToLower(name), service+"_kimbap") {
			return service, true
		}
	}
	return "", false
}

// announcing gives the call a body behind which the trailer fields come, each with the value 1.
func announcing(c *runtime.Call, names ...string) *runtime.Call {
	body(c, strings.NewReader("text"), -1).Request.Raw.Announced = names
	c.Request.Raw.Trailer = func() http.Header {
		h := http.Header{}
		for _, name := range names {
			h.Set(name, "1")
		}
		return h
	}
	return c
}

// What comes behind a body is seen when the rest has left: it is dropped there, and the
// record says so.
func TestPlaceholdersInTrailersDoNotLeave(t *testing.T) {
	r := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Placeholders, o.PlaceholderIn = two, twoIn })
	c := announcing(r.call("POST", "/up"), "X-Sum", "X-Mark")
	c.Request.Raw.Trailer = func() http.Header {
		return http.Header{"X-Sum": {"1"}, "X-Mark": {"k=other_kimbap"}, "X-Other_kimbap": {"1"}}
	}
	_, result := r.must(t, c)
	last := r.Last(t)
	if got := last.Trailer; len(got) != 1 || got.Get("X-Sum") != "1" {
		t.Errorf("trailers %v", got)
	}
	if !slices.ContainsFunc(result.Changed, func(c runtime.Change) bool {
		return c.Kind == runtime.ChangeTrailer && c.Name == "X-Mark"
	}) {
		t.Errorf("declared %v", result.Changed)
	}
}

func TestWhereACredentialMayGo(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	c := r.call("GET", "/")
	c.Credential.Authorities = []string{"api.example.com:443"}
	e := r.refused(t, c, runtime.CodeNoCredential, "")
	equal(t, "hint", e.Hint, "kimbap link test --rebind")
	c.Principal = &runtime.Principal{Tenant: "acme"}
	equal(t, "hint for another tenant", r.refused(t, c, runtime.CodeNoCredential, "").Hint, "kimbap --tenant acme link test --rebind")
	c = r.call("GET", "/")
	c.Action.HTTP.Authorities = []string{"api.example.com:443"}
	r.refused(t, c, runtime.CodeNoCredential, "")

	far := r.call("GET", "/")
	far.Request.Target.Scheme, far.Request.Target.Authority = "http", "api.example.com:80"
	far.Action.HTTP.Authorities = []string{"api.example.com:80"}
	far.Credential.Authorities = far.Action.HTTP.Authorities
	r.refused(t, far, runtime.CodeForbidden, runtime.ReasonInsecureScheme)
	equal(t, "connections", r.Connections(), 0)

	plain := newRig(t, servicestest.Options{Cleartext: true})
	plain.must(t, plain.call("GET", "/"))
	equal(t, "told of loopback", plain.dialer.loopback.Load(), true)
	equal(t, "told of trust", plain.dialer.trusted.Load(), true)
	plain.backend.Close()
	shown := pass(plain.call("GET", "/"))
	shown.Request.Caller.Token = runtime.NewSecret("kmb_x")
	plain.must(t, shown)
	equal(t, "loopback of a host with no service", plain.dialer.loopback.Load(), false)
	equal(t, "trust in a token", plain.dialer.trusted.Load(), false)
}

// CL-003 and CL-005: the caller sees the redirect, nobody follows it.
func TestRedirectsAreNotFollowed_CL003_CL005(t *testing.T) {
	r, evil := newRig(t, servicestest.Options{}), servicestest.New(t, servicestest.Options{})
	answer, _ := r.must(t, r.call("GET", "/redirect?to="+evil.URL("/steal")))
	equal(t, "status", answer.Status, 302)
	equal(t, "location", answer.Header.Get("Location"), evil.URL("/steal"))
	c := body(r.call("POST", "/redirect-307?to="+evil.URL("/steal"), "Content-Type: application/json"), strings.NewReader(`{"a":1}`), 7)
	c.Action.Auth = &runtime.Auth{Type: runtime.AuthBody, Field: "key"}
	answer, _ = r.must(t, c)
	equal(t, "status", answer.Status, 307)
	equal(t, "requests elsewhere", len(evil.Requests()), 0)
	equal(t, "requests here", len(r.Requests()), 2)
}

// A parameter that PHP, Rack or a server that splits at ";" reads as the credential's does
// not go out beside the stored one, where only the placeholder may stand.
func TestNothingStandsBesideTheCredentialInAnotherSpelling(t *testing.T) {
	const form = "Content-Type: application/x-www-form-urlencoded"
	for _, c := range []struct {
		in     runtime.AuthType
		target string
		body   string
		bad    bool
	}{
		{runtime.AuthQuery, "/q?api_key=test_kimbap&api_key%5B%5D=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&api.key=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&api%20key=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&+api_key=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&api_key%00x=mine", "", true},
		{runtime.AuthQuery, "/q?a=1;api_key=mine&api_key=test_kimbap", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&%5Bapi_key%5D=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&api_key%5D=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&%3Fapi_key=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&%EF%BB%BFapi_key=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&api.key%5Bx%5D=mine", "", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap&a=1;b=2&key=3&api_key_id=4&my[api_key]=5&=", "", false},
		{runtime.AuthQuery, "/q?api_key=test_kimbap", "a=1&api_key=mine", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap", "api_key[]=mine", true},
		{runtime.AuthQuery, "/q?api_key=test_kimbap", "key=1&my[api_key]=2", false},
		{runtime.AuthBody, "/q", "api_key=test_kimbap&api.key=mine", true},
		{runtime.AuthBody, "/q?API_KEY=mine", "api_key=test_kimbap", true},
		{runtime.AuthBody, "/q?key=1", "api_key=test_kimbap&API_KEY=test_kimbap&b=2", false},
	} {
		r := newRig(t, servicestest.Options{})
		call := r.call("GET", c.target)
		if c.body != "" {
			call = body(r.call("POST", c.target, form), strings.NewReader(c.body), int64(len(c.body)))
			if _, err := call.Request.Raw.Buffer(1 << 10); err != nil { // as a form is before it gets here
				t.Fatal(err)
			}
		}
		call.Action.Auth = &runtime.Auth{
			Type: c.in, Query: "api_key", Field: "api_key", Caller: runtime.CallerPlaceholder, Placeholders: map[string]string{"T": "test_kimbap"},
		}
		if c.bad {
			r.refused(t, call, runtime.CodeInvalidInput, runtime.ReasonDuplicateParameter)
			equal(t, c.target, len(r.Requests()), 0)
		} else {
			r.must(t, call)
		}
	}
}

func TestBodiesThatCannotTakeACredential(t *testing.T) {
	r := newRig(t, servicestest.Options{})
	for text, reason := range map[string]runtime.Reason{
		`[1]`: runtime.ReasonInvalidJSON, `{"key":1,"key":2}`: runtime.ReasonDuplicateKey, `{"KEY":1}`: runtime.ReasonDuplicateKey,
		`{"a":1} x`: runtime.ReasonTrailingData, `{"a":`: runtime.ReasonInvalidJSON, ``: runtime.ReasonInvalidJSON,
	} {
		c := body(r.call("POST", "/", "Content-Type: application/json"), strings.NewReader(text), int64(len(text)))
		c.Action.Auth = &runtime.Auth{Type: runtime.AuthBody, Field: "key"}
		r.refused(t, c, runtime.CodeInvalidInput, reason)
	}
	c := body(r.call("POST", "/", "Content-Type: text/plain"), strings.NewReader("x"), 1)
	c.Action.Auth = &runtime.Auth{Type: runtime.AuthBody, Field: "key"}
	r.refused(t, c, runtime.CodeInvalidInput, runtime.ReasonUnsupportedMedia)
	equal(t, "requests", len(r.Requests()), 0)
}

// The record says which credential went out; without a trusted connection none
// did.
func TestNoCredentialIsRecordedThatDidNotLeave(t *testing.T) {
	untrusted := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.TLS = nil })
	refused := newRig(t, servicestest.Options{}, func(o *rest.Options) { o.Dialer = refuser{} })
	for name, r := range map[string]*rig{"certificate": untrusted, "egress": refused} {
		result, err := r.backend.Execute(t.Context(), r.call("GET", "/"), &runtimetest.Responder{})
		if err == nil || result.Used != runtime.CredentialNone {
			t.Errorf("%s: used %q, error %v", name, result.Used, err)
		}
	}
}

// refuser is an egress guard that lets nothing out.
type refuser struct{}

func (refuser) Dial(context.Context, string, bool, bool) (net.Conn, string, bool, error) {
	return nil, "", false, &runtime.Error{Code: runtime.CodeEgressDenied}
}

// A credential in the body changes its length. A caller of HTTP/2 may say a length and
// trailers, and what does not fit into the length it said would be a request of its own,
// that nobody has judged; or what lacks would be taken from the next one.
func TestACredentialInABodyThatSaysItsLengthAndTrailers(t *testing.T) {
	for name, text := range map[string]string{
		"longer":  "k=test_kimbap&x=GET /evil HTTP/1.1\r\n\r\n",
		"shorter": "k=" + strings.Repeat("a", 300),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, servicestest.Options{})
			c := body(r.call("POST", "/items/1", "Content-Type: application/x-www-form-urlencoded"), strings.NewReader(text), int64(len(text)))
			c.Request.Raw.Proto = "HTTP/2.0"
			c.Request.Raw.Announced = []string{"X-Sum"}
			c.Request.Raw.Trailer = func() http.Header { return http.Header{"X-Sum": {"1"}} }
			c.Action.Auth = &runtime.Auth{Type: runtime.AuthBody, Field: "k"}
			if _, err := c.Request.Raw.Buffer(1 << 20); err != nil {
				t.Fatal(err)
			}
			_, result := r.must(t, c)
			r.must(t, r.call("GET", "/items/2"))
			all := r.Requests()
			if len(all) != 2 || all[1].Target != "/items/2" {
				t.Fatalf("the upstream saw %d requests, the last %q", len(all), all[len(all)-1].Line)
			}
			if got := all[0].Header.Get("Content-Length"); got != strconv.Itoa(len(all[0].Body)) || !strings.Contains(string(all[0].Body), "k="+url.QueryEscape(canary)) {
				t.Errorf("length %s of %q", got, all[0].Body)
			}
			if !slices.Contains(result.Changed, runtime.Change{Kind: runtime.ChangeTrailer, Name: "X-Sum"}) {
				t.Errorf("the trailer that did not go out is not declared: %v", result.Changed)
			}
		})
	}
}
