package openapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// risks asks what a POST to each path is in the service of a document.
func risks(t *testing.T, paths string, want map[string]runtime.Risk) *openapi.Result {
	t.Helper()
	r, err := one(t, head+paths+`}}`, openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	posts(t, r, want)
	return r
}

func posts(t *testing.T, r *openapi.Result, want map[string]runtime.Risk) {
	t.Helper()
	set := parse(t, r)
	for path, risk := range want {
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "x.test:443", Method: "POST", Target: path, Header: http.Header{}})
		a, _ := set.Action(m.Action)
		if err != nil || a == nil || a.Risk != risk || a.GrantsAccess != (risk == runtime.RiskCritical) {
			t.Errorf("POST %s is %s, %v, want %s\n%s", path, m.Action, err, risk, r.YAML)
		}
	}
}

const noBounds = `"parameters": [{"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 10, "maximum": 5}}]`

// What can be planned but is no action of a service file hands out access still.
func TestWhatTheFormatRefusesIsGuarded(t *testing.T) {
	r := risks(t, `"/a": {"get": {}},
		"/keys": {"post": {"operationId": "createApiKey", `+noBounds+`}}, "/notes": {"post": {`+noBounds+`}},
		"/p/{id}": {"post": {"operationId": "makeThing", `+noBounds+`}}, "/p/{key}": {"post": {"operationId": "createSession"}},
		"/r/{id}": {"post": {}}, "/r/{key}": {"post": {"operationId": "createLogin", "parameters": [{"$ref": "#/none"}]}},
		"/q": {"post": {}}, "/q?beta=true": {"post": {"operationId": "createToken", `+noBounds+`}}`, map[string]runtime.Risk{
		"/keys": runtime.RiskCritical, "/notes": runtime.RiskMedium, "/p/7": runtime.RiskCritical, "/r/7": runtime.RiskCritical, "/q": runtime.RiskCritical, "/q?beta=true": runtime.RiskCritical,
	})
	if report := r.Report(); r.Imported != 3 || len(r.Skipped) != 6 || !strings.Contains(report, "POST /keys") || !strings.Contains(report, "4 taken to hand out lasting access") {
		t.Error(report)
	}
}

// Of two operations in one place the worse one counts, as nobody can tell which is meant.
func TestTwoOperationsOfOnePlaceAreTheWorseOne(t *testing.T) {
	for _, paths := range []string{
		`"/items/{id}": {"post": {"operationId": "updateItem"}}, "/items/{item}": {"post": {"operationId": "deleteItem"}}`,
		`"/items/{id}": {"post": {"operationId": "deleteItem"}}, "/items/{item}": {"post": {"operationId": "updateItem"}}`,
		`"/items/{id}": {"post": {"operationId": "updateItem", ` + noBounds + `}}, "/items/{item}": {"post": {"operationId": "deleteItem"}}`,
		`"/items/{id}": {"post": {"operationId": "updateItem"}}, "/items/{item}": {"post": {"operationId": "deleteItem", "parameters": [{"$ref": "#/none"}]}}`,
	} {
		risks(t, paths, map[string]runtime.Risk{"/items/7": runtime.RiskHigh})
	}
}

// What deletes by a POST and cannot be imported is no write like any other.
func TestWhatDeletesAndIsLeftOutIsGuarded(t *testing.T) {
	r := risks(t, `"/a/removeAll": {"post": {`+noBounds+`}}, "/b/removeAll": {"post": {"parameters": [{"$ref": "#/none"}]}}, "/c": {"post": {`+noBounds+`}}`, map[string]runtime.Risk{
		"/a/removeAll": runtime.RiskHigh, "/b/removeAll": runtime.RiskHigh, "/c": runtime.RiskMedium,
	})
	if r.Imported != 0 || len(r.Skipped) != 3 || len(r.Grants) != 0 {
		t.Error(r.Report())
	}
}

// A path that a service file cannot have as it stands is guarded all the same.
func TestPathsThatCannotBeWrittenAreGuarded(t *testing.T) {
	r := risks(t, `"/a": {"get": {}}, "/keys#create": {"post": {"operationId": "createKey"}}, "/my tokens/all": {"post": {}}, "/v1/keys;v=1": {"post": {}}, "/café/keys": {"post": {}}, "/k/{a}/*/keys": {"post": {}}, "/b%/keys": {"post": {}}, "hooks": {"post": {}}`,
		map[string]runtime.Risk{"/keys": runtime.RiskCritical, "/my%20tokens/all": runtime.RiskCritical, "/v1/keys;v=1": runtime.RiskCritical, "/caf%C3%A9/keys": runtime.RiskCritical,
			"/k/1/*/keys": runtime.RiskCritical, "/hooks": runtime.RiskCritical, "/a": runtime.RiskMedium})
	if report := r.Report(); r.Imported != 1 || len(r.Skipped) != 7 || strings.Contains(report, "note: POST") {
		t.Error(report)
	}
}

// Of what is guarded nowhere, the report says so.
func TestAGuardThatIsDroppedIsNamed(t *testing.T) {
	r := risks(t, `"/a": {"get": {}}, "/x//keys": {"post": {}}`, nil)
	if !strings.Contains(r.Report(), "note: POST /x//keys may do more than any other read or write, and cannot be told from them: the path has an empty segment\n") {
		t.Error(r.Report())
	}
}

// What lives at another path of the same host is judged there: the catch-alls cover it.
func TestAnotherServerOfTheSameHostIsGuarded(t *testing.T) {
	for _, c := range []struct{ servers, own, base, path string }{
		{`{"url": "https://x.test/2.0"}`, `{"url": "https://x.test"}`, "", "/oauth2/token"},
		{`{"url": "https://x.test/2.0"}`, `{"url": "https://X.test:443/auth/"}`, "", "/auth/oauth2/token"},
		{`{"url": "https://x.test/2.0"}`, `{"url": "https://y.test"}, {"url": "/auth"}`, "", "/auth/oauth2/token"},
		{`{"url": "https://x.test/2.0"}`, `{"url": "https://x.test/a"}, {"url": "https://x.test/b"}`, "", "/b/oauth2/token"},
		{`{"url": "https://{at}.y.test/2.0", "variables": {"at": {"default": "a"}}}`, `{"url": "https://{at}.y.test/auth", "variables": {"at": {"default": "a"}}}`, "https://x.test/2.0", "/auth/oauth2/token"},
	} {
		text := `{"openapi": "3.0.0", "info": {"title": "x", "version": "1"}, "servers": [` + c.servers + `], "paths": {"/a": {"get": {}}, "/oauth2/token": {"post": {"servers": [` + c.own + `]}}, "/oauth2/token#refresh": {"post": {"servers": [` + c.own + `]}}}}`
		r, err := one(t, text, openapi.Options{BaseURL: c.base})
		if err != nil {
			t.Fatal(err)
		}
		posts(t, r, map[string]runtime.Risk{c.path: runtime.RiskCritical, "/2.0/oauth2/token": runtime.RiskMedium})
	}
	other := `"/a": {"get": {}}, "/token": {"post": {"servers": [{"url": "https://y.test"}, {"url": "https://x.test:8443"}]}}`
	risks(t, other, map[string]runtime.Risk{"/token": runtime.RiskMedium})
}

// A path whose operations cannot be read is guarded by what it says itself.
func TestPathsThatCannotBeReadAreGuarded(t *testing.T) {
	r := risks(t, `"/a": {"get": {}}, "/api_keys": {"$ref": "paths/keys.yaml"}, "/things": {"$ref": "paths/things.yaml"}, "/things/{id}/remove": {"$ref": "#/none"}, "/hooks": {"post": {"$ref": "hook.yaml"}, "get": 7}, "/b": {"get": {"operationId": "post_api_keys"}}`,
		map[string]runtime.Risk{"/api_keys": runtime.RiskCritical, "/things": runtime.RiskMedium, "/things/7/remove": runtime.RiskHigh, "/hooks": runtime.RiskCritical})
	text := string(r.YAML)
	if r.Imported != 2 || r.Total != 7 || len(r.Skipped) != 5 || !strings.Contains(text, "\n  post-api-keys:\n") || !strings.Contains(text, "\n  post-api-keys-") {
		t.Errorf("%s\n%s", r.Report(), text)
	}
	for _, method := range []string{"GET", "DELETE"} {
		if strings.Contains(text, "\n    description: "+method+" /api_keys\n") {
			t.Errorf("a %s of what cannot be read is guarded:\n%s", method, text)
		}
	}
}
