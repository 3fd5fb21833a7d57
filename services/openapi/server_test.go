package openapi_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services/openapi"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A document that names no server, or only a path, lives where it was fetched from, as what
// frameworks and self-hosted products serve does; one of a file needs a base.
func TestServersAreRelativeToWhereADocumentComesFrom(t *testing.T) {
	const paths = `"paths": {"/a": {"get": {}}}}`
	for _, c := range []struct{ document, at, base, want string }{
		{`{"openapi": "3.1.0", ` + paths, "https://x.test:8443/docs/openapi.json", "", "https://x.test:8443/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/"}], ` + paths, "https://x.test/docs/openapi.json", "", "https://x.test/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/v1/"}], ` + paths, "https://x.test/docs/openapi.json", "", "https://x.test/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "../v1"}], ` + paths, "https://x.test/docs/openapi.json", "", "https://x.test/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "../../../v1"}], ` + paths, "https://x.test/docs/openapi.json", "", "https://x.test/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "v1"}], ` + paths, "https://x.test/docs/openapi.json", "", "https://x.test/docs/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/{v}", "variables": {"v": {"default": "v2"}}}], ` + paths, "https://x.test/openapi.json", "", "https://x.test/v2/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "https://api.x.test/v1"}], ` + paths, "https://x.test/openapi.json", "", "https://api.x.test/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/v1"}], "paths": {"/a": {"get": {"servers": [{"url": "/v1/"}]}}}}`, "https://x.test/openapi.json", "", "https://x.test/v1/a"},
		{`{"swagger": "2.0", "basePath": "/api/v1", ` + paths, "https://x.test:8443/swagger.v1.json", "", "https://x.test:8443/api/v1/a"},
		{`{"swagger": "2.0", ` + paths, "https://x.test/swagger.json", "", "https://x.test/a"},
		{`{"swagger": "2.0", "host": "api.x.test", "basePath": "/v1", ` + paths, "https://x.test/swagger.json", "", "https://api.x.test/v1/a"},
		{`{"swagger": "2.0", "host": "api.x.test", "basePath": "v1", ` + paths, "", "", "https://api.x.test/v1/a"}, // not of api.x.testv1
		{`{"swagger": "2.0", "basePath": "v1", ` + paths, "https://x.test/docs/swagger.json", "", "https://x.test/v1/a"},
		// A base takes the path of a document that has no more than one.
		{`{"swagger": "2.0", "basePath": "/api/v1", ` + paths, "", "https://y.test", "https://y.test/api/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/v1"}], ` + paths, "https://x.test/openapi.json", "https://y.test", "https://y.test/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/{v}", "variables": {"v": {"default": "v2"}}}], ` + paths, "", "https://y.test", "https://y.test/v2/a"},
		{`{"swagger": "2.0", "basePath": "/api/v1", ` + paths, "", "http://127.0.0.1:8080", "http://127.0.0.1:8080/api/v1/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "/v1"}, {"url": "/v2"}], "paths": {"/a": {"get": {"servers": [{"url": "/v1"}]}}}}`, "", "https://y.test", "https://y.test/v1/a"},
		{`{"swagger": "2.0", "basePath": "/api/v1", ` + paths, "", "https://y.test/", "https://y.test/a"},
		{`{"swagger": "2.0", "basePath": "/api/v1", ` + paths, "", "https://y.test/v2", "https://y.test/v2/a"},
		{`{"openapi": "3.1.0", "servers": [{"url": "https://api.x.test/v1"}], ` + paths, "", "https://y.test", "https://y.test/a"},
	} {
		o := openapi.Options{Name: "x", BaseURL: c.base}
		if c.at != "" {
			at, err := url.Parse(c.at)
			if err != nil {
				t.Fatal(err)
			}
			o.At = at
		}
		r, err := one(t, c.document, o)
		if err != nil {
			t.Errorf("%s at %s: %v", c.document, c.at, err)
			continue
		}
		u, _ := url.Parse(c.want)
		for _, line := range []string{"\nbase_url: \"" + u.Scheme + "://" + u.Host + "\"\n", "    path: " + u.Path + "\n"} {
			if !strings.Contains(string(r.YAML), line) {
				t.Errorf("%s at %q, base %q: no %q in\n%s", c.document, c.at, c.base, line, r.YAML)
			}
		}
	}
}

// Of several schemes that may all be used, the one is taken that puts no key into an address.
func TestAuthOfSchemesThatMayAllBeUsed(t *testing.T) {
	const (
		basic  = `{"type": "basic"}`
		query  = `{"type": "apiKey", "in": "query", "name": "access_token"}`
		sudo   = `{"type": "apiKey", "in": "header", "name": "Sudo"}`
		bare   = `{"type": "apiKey", "in": "header", "name": "Authorization", "description": "the word token and the key"}`
		bearer = `{"type": "apiKey", "in": "header", "name": "authorization", "description": "\"Bearer KEY\""}`
	)
	for schemes, want := range map[[2]string]string{
		{query, basic}: "{type: basic, basic: {username_ref: x.username, password_ref: x.password}}",
		{query, sudo}:  "{type: header, credential_ref: x.key, header: {name: Sudo}}",
		{sudo, basic}:  "{type: basic, basic: {username_ref: x.username, password_ref: x.password}}",
		{sudo, bare}:   "{type: header, credential_ref: x.key, header: {name: Authorization}}",
		{bare, bearer}: "{type: bearer, credential_ref: x.token}",
	} {
		for _, turned := range []bool{false, true} {
			a, b := schemes[0], schemes[1]
			if turned {
				a, b = b, a
			}
			r, err := one(t, `{"swagger": "2.0", "host": "x.test", "securityDefinitions": {"a": `+a+`, "b": `+b+`}, "security": [{"a": []}, {"b": []}], "paths": {"/a": {"get": {}}}}`, openapi.Options{Name: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(r.YAML), "\nauth: "+want+"\n") {
				t.Errorf("%s, %s: want %s in\n%s", a, b, want, r.YAML)
			}
			if says := strings.Contains(r.Report(), "does not say what stands before the key"); says != strings.Contains(want, "Authorization") {
				t.Errorf("%s, %s: the report is\n%s", a, b, r.Report())
			}
		}
	}
}

// A variable that is the host, or whose default is of several labels, takes a name of several:
// what the document itself has there can be given. No value leads past what stands behind it.
func TestVariablesTakeWhatTheDocumentGivesThem(t *testing.T) {
	for _, c := range []struct {
		address, variable, site string
		want                    string // the host with that value, "" when it is refused
	}{
		{"https://{site}", `{"default": "subdomain.okta.com"}`, "subdomain.okta.com", "subdomain.okta.com:443"},
		{"https://{site}", `{"default": "acme"}`, "acme.okta.com", "acme.okta.com:443"},
		{"https://{site}:8443/api", `{"default": "acme"}`, "acme.okta.com", "acme.okta.com:8443"},
		{"https://{site}.x.test", `{"default": "eu.acme"}`, "us.acme", "us.acme.x.test:443"},
		{"https://{site}.of-{site}.test", `{"default": "acme"}`, "acme", "acme.of-acme.test:443"},
		{"https://{site}.x.test", `{"default": "acme"}`, "us.acme", ""},
		{"https://{site}", `{"enum": ["a.x.test", "b.x.test"]}`, "b.x.test", "b.x.test:443"},
		{"https://{site}", `{"enum": ["a.x.test", "b.x.test"]}`, "b-x-test", ""},
		{"https://{site}", `{}`, ".okta.com", ""},
		{"https://{site}", `{}`, "okta.com.", ""},
		{"https://{site}", `{}`, "okta..com", ""},
		{"https://{site}.x.test", `{"default": "eu.acme"}`, "evil.test/", ""},
		{"https://{site}.x.test", `{"default": "eu.acme"}`, "evil.test:1@a", ""},
	} {
		r, err := one(t, `{"openapi": "3.0.0", "servers": [{"url": "`+c.address+`", "variables": {"site": `+c.variable+`}}], "paths": {"/a": {"get": {}}}}`, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		s, err := servicestest.Install(t.TempDir(), "x.yaml", r.YAML, map[string]string{"site": c.site})
		if refused := err != nil; refused != (c.want == "") {
			t.Errorf("%s with %q: %v\n%s", c.address, c.site, err, r.YAML)
		} else if !refused && s.Authorities[0] != c.want {
			t.Errorf("%s with %q is %q", c.address, c.site, s.Authorities)
		}
	}
}

// A scheme that is wanted beside another is no other way to the API: with one of them alone
// requests are refused.
func TestSchemesThatAreWantedTogether(t *testing.T) {
	const (
		beside = `the API wants the security scheme "appKey" beside header:DD-API-KEY, which alone the service fills in: programs must send the other themselves`
		asWell = `some operations may be used with the security scheme "appKey" as well; the service has one: header:DD-API-KEY`
	)
	for needs, want := range map[string]string{
		`[{"apiKey": [], "appKey": []}]`:             beside,
		`[{"apiKey": [], "appKey": []}, {}]`:         beside,
		`[{"apiKey": [], "appKey": []}, {"ot": []}]`: beside,
		`[{"apiKey": []}, {"appKey": []}]`:           asWell,
	} {
		r, err := one(t, `{"openapi": "3.0.0", "servers": [{"url": "https://x.test"}], "security": `+needs+`, "components": {"securitySchemes": {
			"apiKey": {"type": "apiKey", "in": "header", "name": "DD-API-KEY"}, "appKey": {"type": "apiKey", "in": "header", "name": "DD-APPLICATION-KEY"}, "ot": {"type": "mutualTLS"}}}, "paths": {"/a": {"get": {}}}}`, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Report(); !strings.Contains(got, want) || strings.Contains(got, "beside") != (want == beside) || strings.Contains(got, "as well") != (want == asWell) {
			t.Errorf("%s: %s", needs, got)
		}
	}
}
