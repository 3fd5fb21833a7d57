package openapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services/openapi"
)

// What hands out lasting access is found by its words, and ordinary work is not
// taken for it.
func TestRiskIsGuessedFromMethodAndWords(t *testing.T) {
	for line, want := range map[string]string{
		"GET /things": "low", "HEAD /things": "low", "POST /things": "medium", "PUT /things/{id}": "medium", "PATCH /things/{id}": "medium", "DELETE /keys/{id}": "high",
		"POST /things/{id}/delete": "high", "POST /chat.delete": "high", "POST /things:batchDelete": "high", "PUT /things/{id}/purge": "high", "GET /deleteThing": "high", "POST /things/removeAll": "high",
		"GET /pods/{name}/exec": "high", "POST /pods/{name}/attach": "high", "GET /pods/{name}/portforward": "high", "GET /pods/{name}/proxy/{path}": "high",
		"GET /pods/{name}/log": "low", "GET /attachments": "low", "GET /proxies": "low",
		"GET /things/deleted": "low", "POST /tokens/revoke": "grants", "GET /archive": "low", "POST /undelete": "medium",
		"POST /repos/{repo}/keys": "grants", "POST /user/apiKeys": "grants", "POST /tokens": "grants", "POST /oauth/access_token": "grants", "POST /repos/{repo}/hooks": "grants",
		"PUT /repos/{repo}/collaborators/{user}": "grants", "PUT /teams/{id}/members/{user}": "grants", "POST /orgs/{org}/invitations": "grants",
		"POST /runners/registration-token": "grants", "POST /realtime/client_secrets": "grants", "POST /projects/{id}/service_accounts": "grants",
		"POST /groups/{id}/users": "grants", "POST /admin.users.setAdmin": "grants", "PUT /secrets/{name}/repositories": "grants", "POST /user/emails": "grants",
		"GET /runners/registration-token": "grants", "GET /keys/{id}/secret": "grants", "GET /jobs/{id}/credentials": "grants", "GET /oauth.access": "grants",
		"GET /keys": "low", "GET /tokens/{id}": "low", "GET /secrets/{name}": "low", "GET /webhooks": "low", "GET /members": "low",
		"POST /responses/input_tokens": "medium", "POST /messages/count_tokens": "medium", "POST /messages": "medium", "POST /issues/{id}/comments": "medium",
		"GET /api/user/token/": "grants", "GET /secrets/{name}:reveal": "grants", "POST /v1/{name}:setIamPolicy": "grants", "POST /v1/{name}:delete": "high", "POST /v1/{name}:generate": "medium",
		"GET /reports/{token}": "low", "POST /things/{key}": "medium", "POST /collaborations": "grants", "POST /files/{id}/collaboration": "grants",
		"POST /projects/{id}/tasks": "medium", "PUT /actions/secrets/{name}": "medium", "POST /teams/{id}/discussions": "medium", "POST /search": "medium",
	} {
		method, path, _ := strings.Cut(line, " ")
		r, err := one(t, fmt.Sprintf(`{"openapi": "3.0.0", "servers": [{"url": "https://x.test"}], "paths": {%q: {%q: {}}}}`, path, strings.ToLower(method)), openapi.Options{})
		if err != nil {
			t.Fatal(line, err)
		}
		text := string(r.YAML)
		got := ""
		for _, level := range []string{"low", "medium", "high"} {
			if strings.Contains(text, "    risk: {level: "+level+"}\n") {
				got = level
			}
		}
		if len(r.Grants) == 1 && strings.Contains(text, "risk: {level: critical, grants_access: true}") {
			got = "grants"
		}
		if got != want {
			t.Errorf("%s is %s, want %s", line, got, want)
		}
	}
}

// The same operation has the same name whatever else is imported, and no two
// operations have one.
func TestNamesAreStableAndTheirOwn(t *testing.T) {
	doc := func(paths string) string {
		return `{"openapi": "3.0.0", "servers": [{"url": "https://x.test"}], "paths": {` + paths + `}}`
	}
	const a = `"/a": {"get": {"operationId": "pets/listAll", "tags": ["x"]}, "post": {"operationId": "getHTTPServer2Name"}}`
	const same = `"/b": {"get": {"operationId": "pets.list_all"}}`
	first, err := one(t, doc(a), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pets-list-all", "get-http-server2-name"} {
		if !strings.Contains(string(first.YAML), "\n  "+name+":\n") {
			t.Errorf("no %s in\n%s", name, first.YAML)
		}
	}
	both, err := one(t, doc(a+","+same), openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	part, err := one(t, doc(a+","+same), openapi.Options{Tags: []string{"X"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(both.YAML), "\n  pets-list-all:\n") || strings.Count(string(both.YAML), "\n  pets-list-all-") != 2 {
		t.Errorf("one of two took the name:\n%s", both.YAML)
	}
	start := strings.Index(string(part.YAML), "  pets-list-all-")
	name, _, _ := strings.Cut(string(part.YAML)[start:], "\n")
	if !strings.Contains(string(both.YAML), name) {
		t.Errorf("with --tag the name is %s", name)
	}
	long, err := one(t, doc(`"/a": {"get": {"operationId": "`+strings.Repeat("veryLong", 20)+`"}}, "/b": {"get": {"operationId": "7up"}}, "/c": {"get": {"operationId": "日本"}}, "/d": {"get": {"operationId": "api-read"}}`), openapi.Options{})
	if err != nil || long.Imported != 4 {
		t.Fatal(err, long.Report())
	}
	for _, want := range []string{"\n  op-7up:\n", "\n  get-c:\n", "\n  api-read-"} {
		if !strings.Contains(string(long.YAML), want) {
			t.Errorf("no %q in\n%s", want, long.YAML)
		}
	}
}

// Where the key goes is what most operations ask for.
func TestAuthIsTheSchemeMostOperationsAskFor(t *testing.T) {
	for scheme, want := range map[string]string{
		`{"type": "http", "scheme": "Bearer"}`:                "{type: bearer, credential_ref: x.token}",
		`{"type": "http", "scheme": "basic"}`:                 "{type: basic, basic: {username_ref: x.username, password_ref: x.password}}",
		`{"type": "apiKey", "in": "header", "name": "X-Key"}`: "{type: header, credential_ref: x.key, header: {name: X-Key}}",
		`{"type": "apiKey", "in": "query", "name": "key"}`:    "{type: query, credential_ref: x.key, query: {name: key}}",
		`{"type": "oauth2", "flows": {}}`:                     "{type: bearer, credential_ref: x.token}",
		`{"type": "openIdConnect"}`:                           "{type: bearer, credential_ref: x.token}",

		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://login.test/token", "scopes": {}}}}`:            `{type: oauth2, credential_ref: x.token, oauth2: {grant: client_credentials, token_url: "https://login.test/token"}}`,
		`{"type": "oauth2", "flow": "application", "tokenUrl": "https://login.test/token"}`:                                     `{type: oauth2, credential_ref: x.token, oauth2: {grant: client_credentials, token_url: "https://login.test/token"}}`,
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://login.test/token"}, "authorizationCode": {}}}`: "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token"}}}`:                                            "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "http://login.test/token"}}}`:                           "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://u:p@login.test/token"}}}`:                      "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://login.test/token?client_secret=a"}}}`:          "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://127.1/token"}}}`:                               "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://login.test/token\"}}, actions: {x: {"}}}`:      `{type: oauth2, credential_ref: x.token, oauth2: {grant: client_credentials, token_url: "https://login.test/token\"}}, actions: {x: {"}}`, // quoted
		`{"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": ["https://login.test/token"]}}}`:                        "{type: bearer, credential_ref: x.token}",
		`{"type": "oauth2", "flows": ["clientCredentials"]}`:                                                                    "{type: bearer, credential_ref: x.token}",
		`{"type": "apiKey", "in": "cookie", "name": "c"}`:                                                                       "{type: none}",
		`{"type": "apiKey", "in": "header", "name": "Content-Type"}`:                                                            "{type: none}",
		`{"type": "mutualTLS"}`: "{type: none}",
	} {
		doc := `{"openapi": "3.0.0", "servers": [{"url": "https://x.test"}], "security": [{"main": []}], "components": {"securitySchemes": {"main": ` + scheme + `, "rare": {"type": "http", "scheme": "basic"}}},
			"paths": {"/a": {"get": {}, "post": {}}, "/b": {"get": {"security": [{"rare": []}]}, "post": {"security": []}}}}`
		r, err := one(t, doc, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if want == "{type: none}" {
			want = "{type: basic, basic: {username_ref: x.username, password_ref: x.password}}" // the rare one can be filled in
			if !strings.Contains(r.Report(), "is of a kind that cannot be filled in") {
				t.Errorf("%s: %s", scheme, r.Report())
			}
		}
		if !strings.Contains(string(r.YAML), "\nauth: "+want+"\n") {
			t.Errorf("%s: want %s in\n%s", scheme, want, r.YAML)
		}
	}
	for given, want := range map[string]string{"body:api_key": "{type: body, credential_ref: x.key, body: {field: api_key}}", "none": "{type: none}"} {
		r, err := one(t, head+`"/a": {"post": {"requestBody": {"content": {"application/json": {"schema": {"properties": {"api_key": {"type": "string"}, "b": {"type": "string"}}}}}}}}}}`, openapi.Options{Name: "x", Auth: given})
		if err != nil || !strings.Contains(string(r.YAML), "\nauth: "+want+"\n") {
			t.Errorf("%s: %v\n%s", given, err, r.YAML)
		}
		if strings.Contains(string(r.YAML), "name: api_key") == (given != "none") {
			t.Errorf("%s: the key is an argument:\n%s", given, r.YAML)
		}
	}
}
