package openapi_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// A key that stands bare in a path, as S3's have it, is an argument that a call must give.
func TestABareKeyInAPathIsAnArgument(t *testing.T) {
	const paths = `"/{bucket}": {"get": {"operationId": "list"}, "put": {"operationId": "create"}},
		"/{bucket}?acl": {"get": {"operationId": "get-acl", "parameters": [{"name": "acl", "in": "query", "required": true, "allowEmptyValue": true, "schema": {"type": "boolean", "enum": [true]}}]},
			"put": {"operationId": "put-acl"}},
		"/{bucket}/k?kind=a": {"get": {"operationId": "of-kind", "parameters": [{"name": "kind", "in": "query", "required": true, "schema": {"type": "string"}}]}}`
	for action, want := range map[string]string{"get-acl": "/b?acl=", "put-acl": "/b?acl="} {
		b, set := built(t, paths, action, runtime.Args{"bucket": "b", "acl": ""})
		if b.Target != want {
			t.Errorf("%s: %s", action, b.Target)
		}
		for _, target := range []string{"/b?acl", "/b?acl=", "/b?acl=true"} {
			if a := judged(t, set, b.Method, target); a.Name != action {
				t.Errorf("%s %s is %s", b.Method, target, a.Name)
			}
		}
		if _, err := set.Resolve(&runtime.Request{Action: runtime.Ref("x." + action), Args: runtime.Args{"bucket": "b"}}); err == nil {
			t.Errorf("%s is called without acl", action)
		}
	}
	if b, _ := built(t, paths, "of-kind", runtime.Args{"bucket": "b"}); b.Target != "/b/k?kind=a" {
		t.Error(b.Target)
	}
}

// A value that says something else in match: is not imported as it.
func TestAValueThatMeansMoreIsNoCondition(t *testing.T) {
	for _, query := range []string{"kind=a|b", "kind=*", "kind=%2A"} {
		r, err := one(t, head+`"/a": {"get": {}}, "/b?`+query+`": {"post": {"operationId": "createKey"}}}}`, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if a := judged(t, parse(t, r), "POST", "/b?kind=a"); r.Imported != 1 || !strings.Contains(r.Report(), "the query in its path is not fixed") || !a.GrantsAccess {
			t.Errorf("%s: %s\n%s", query, a.Name, r.Report())
		}
	}
}
