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

// Two bare keys may stand in one query, so no match: tells them apart. The report says so in
// the words of the document, and what hands out access is guarded.
func TestTwoBareKeysAreNotToldApart(t *testing.T) {
	r, err := one(t, head+`"/{bucket}": {"get": {"operationId": "list"}},
		"/{bucket}?acl": {"get": {"operationId": "get-acl"}, "put": {"operationId": "put-acl"}},
		"/{bucket}?policy": {"get": {"operationId": "get-policy"}, "put": {"operationId": "put-policy"}},
		"/{bucket}?tagging": {"get": {"operationId": "get-tagging"}, "put": {"operationId": "put-tagging"}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	const why = "one request may have its query and that of another operation, so match: cannot tell them apart"
	if report := r.Report(); r.Imported != 3 || !strings.Contains(report, "4 × "+why+": GET /{bucket}?") || strings.Contains(report, "x.yaml:") {
		t.Error(report)
	}
	set := parse(t, r)
	if a := judged(t, set, "GET", "/b?acl"); !strings.HasPrefix(a.Name, "get-") {
		t.Errorf("GET ?acl is %s", a.Name)
	}
	for _, target := range []string{"/b?acl", "/b?acl&policy", "/b?policy&acl="} {
		if a := judged(t, set, "PUT", target); !a.GrantsAccess {
			t.Errorf("PUT %s is %s", target, a.Name)
		}
	}
}
