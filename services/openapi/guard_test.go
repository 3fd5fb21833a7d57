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
	set := parse(t, r)
	for path, risk := range want {
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "x.test:443", Method: "POST", Target: path, Header: http.Header{}})
		a, _ := set.Action(m.Action)
		if err != nil || a == nil || a.Risk != risk || a.GrantsAccess != (risk == runtime.RiskCritical) {
			t.Errorf("POST %s is %s, %v, want %s\n%s", path, m.Action, err, risk, r.YAML)
		}
	}
	return r
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
