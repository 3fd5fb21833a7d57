package openapi_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// spanning writes a path with a POST whose parameter name has a pattern.
func spanning(path, pattern string) string {
	return `"` + path + `": {"post": {"parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string", "pattern": "` + pattern + `"}}]}}`
}

// A parameter that holds slashes, as grpc-gateway describes them, is as many segments as its
// pattern has: as one, no request would be this action.
func TestAParameterOfSeveralSegmentsIsTakenApart(t *testing.T) {
	r := risks(t, `"/a": {"get": {}},`+spanning("/v1/{name}/access_tokens", "users/[^/]+")+`,`+spanning("/v1/{name}:setIamPolicy", "^projects/[^/]+/zones/[a-z]+$")+`,
		`+spanning("/v2/{name}:rotate", "projects/[^/]+/(?:keys|old)/[^/]+")+`,`+spanning("/v2/{name}", "projects/[^/]+/keys/[^/]+")+`,`+spanning("/v3/{name}/tokens", "[^/]+")+`,`+spanning("/v4/{name}/keys", "^[a-z]+/[a-z]+$")+`,
		`+spanning("/v5/{name}/keys", "users/.+")+`,`+spanning("/v6/{name}", "users/[^/]+|groups/[^/]+/keys/[^/]+")+`,`+spanning("/v7/{name}/notes", "users/.+"),
		map[string]runtime.Risk{
			"/v1/users/1/access_tokens": runtime.RiskCritical, "/v1/projects/1/zones/2:setIamPolicy": runtime.RiskCritical, "/v1/projects/1/zones/2:read": runtime.RiskMedium,
			"/v2/projects/1/keys/2": runtime.RiskCritical, "/v2/projects/1/notes/2": runtime.RiskMedium, "/v2/projects/1/old/2:rotate": runtime.RiskMedium,
			"/v3/1/tokens": runtime.RiskCritical, "/v4/x/keys": runtime.RiskCritical, "/v5/users/1/keys": runtime.RiskCritical, "/v7/users/1/notes": runtime.RiskMedium,
		})
	for _, want := range []string{
		"path: \"/v1/users/{name}/access_tokens\"\n", `- {name: name, type: string, required: true, description: "{name} of users/{name}"}`,
		"path: \"/v1/projects/{name}/zones/{name_2}:setIamPolicy\"\n", `- {name: name_2, type: string, required: true, description: "{name_2} of projects/{name}/zones/{name_2}"}`,
		"path: \"/v3/{name}/tokens\"\n", `- {name: name, type: string, required: true, pattern: "[^/]+"}`, "path: \"/v4/{name}/keys\"\n",
	} {
		if !strings.Contains(string(r.YAML), want) {
			t.Errorf("no %q in\n%s", want, r.YAML)
		}
	}
	if report := r.Report(); len(r.Skipped) != 3 || !strings.Contains(report, "3 × a parameter of its path spans segments in more than one way: POST /v5/{name}/keys, POST /v6/{name}, POST /v7/{name}/notes\n") {
		t.Error(report)
	}
	set := parse(t, r)
	found, err := set.Resolve(&runtime.Request{Action: "x.post-v1-by-name-access-tokens", Args: runtime.Args{"name": "1"}})
	if err != nil || found.Built.Target != "/v1/users/1/access_tokens" {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestASpanOfSwaggerAndOfAnotherPlaceIsTakenApart(t *testing.T) {
	const doc = `{"swagger": "2.0", "host": "x.test", "info": {"title": "x", "version": "1"}, "parameters": {"n": {"name": "name", "in": "path", "required": true, "type": "string", "pattern": "users/[^/]+"}},
		"paths": {"/v1/{name}/tokens": {"parameters": [{"$ref": "#/parameters/n"}], "post": {}}, "/v1/{name}/{name_2}": {"parameters": [{"$ref": "#/parameters/n"}], "post": {}}}}`
	r, err := one(t, doc, openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	posts(t, r, map[string]runtime.Risk{"/v1/users/1/tokens": runtime.RiskCritical, "/v1/users/1/2": runtime.RiskMedium})
	roundTrip(t, r)
}

// Of what spans segments in more than one way one is guarded, and the report says which.
func TestASpanOfSeveralWaysIsNamed(t *testing.T) {
	r := risks(t, `"/a": {"get": {}},`+spanning("/v1/{name}/keys", "users/[^/]+|groups/[^/]+/x/[^/]+")+`,`+spanning("/v2/{name}/tokens", "users/.+")+`,
		`+spanning("/v3/{name}/tokens", "[Uu]sers/[^/]+")+`,`+spanning("/v4/{name}/notes", "users/.+"), map[string]runtime.Risk{
		"/v1/groups/1/x/2/keys": runtime.RiskCritical, "/v2/users/1/tokens": runtime.RiskCritical, "/v3/Users/1/tokens": runtime.RiskCritical,
	})
	for what, at := range map[string]string{
		"/v1/{name}/keys": "/v1/groups/{part3}/x/{part5}/keys", "/v2/{name}/tokens": "/v2/users/{part3}/tokens", "/v3/{name}/tokens": "/v3/Users/{part3}/tokens",
	} {
		if want := "POST " + what + " may do more than any other read or write, and is told from them at " + at + " alone"; !strings.Contains(r.Report(), want) {
			t.Errorf("no %q in %s", want, r.Report())
		}
	}
	if report := r.Report(); strings.Contains(report, "/v4/{name}/notes may do") || strings.Contains(report, "/v4/users") {
		t.Error(report)
	}
}

// What an operation says of a parameter replaces what its path item says.
func TestASpanIsWhatTheOperationSays(t *testing.T) {
	const item = `"parameters": [{"name": "name", "in": "path", "required": true, "schema": {"type": "string", "pattern": "users/[^/]+"}}]`
	const own = `{"name": "name", "in": "path", "required": true, "schema": {"type": "string"`
	risks(t, `"/v1/{name}/tokens": {`+item+`, "post": {"parameters": [`+own+`, "pattern": "groups/[^/]+"}}]}}, "/v2/{name}/tokens": {`+item+`, "post": {"parameters": [`+own+`}}]}}`,
		map[string]runtime.Risk{
			"/v1/groups/1/tokens": runtime.RiskCritical, "/v1/users/1/tokens": runtime.RiskMedium,
			"/v2/1/tokens": runtime.RiskCritical, "/v2/users/1/tokens": runtime.RiskMedium,
		})
}
