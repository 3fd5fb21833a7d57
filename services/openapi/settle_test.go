package openapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/openapi"
)

// judged is the action that a request is.
func judged(t *testing.T, set *services.Set, method, target string) *runtime.Action {
	t.Helper()
	m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: "x.test:443", Method: method, Target: target, Header: http.Header{}})
	a, ok := set.Action(m.Action)
	if err != nil || !ok {
		t.Fatalf("%s %s is %q: %v", method, target, m.Action, err)
	}
	return a
}

// Of very many problems the last are only counted, behind the last line: that is the mistake
// of no action.
func TestManyProblemsAreThoseOfTheActionsThatHaveThem(t *testing.T) {
	for _, n := range []int{99, 100, 150, 250} {
		var b strings.Builder
		b.WriteString(head)
		for i := range n {
			fmt.Fprintf(&b, `"/a%03d": {"get": {"parameters": [{"name": "n", "in": "query", "schema": {"type": "integer", "minimum": 5, "maximum": 1}}]}}, `, i)
		}
		b.WriteString(`"/z/keys": {"post": {"operationId": "createKey"}}}}`)
		r, err := one(t, b.String(), openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if a := judged(t, parse(t, r), "POST", "/z/keys"); r.Imported != 1 || len(r.Skipped) != n || a.Name != "create-key" || !a.GrantsAccess {
			t.Errorf("of %d: %s\n%s", n, a.Name, r.Report())
		}
	}
}

// What is everything at the host cannot be told from the catch-alls. It alone is left out.
func TestAnOperationThatIsEverythingIsLeftOutAlone(t *testing.T) {
	for path, parameters := range map[string]string{
		"/{path}": `[{"name": "path", "in": "path", "required": true, "x-multi-segment": true, "schema": {"type": "string"}}]`, "/**": `[]`,
	} {
		r, err := one(t, head+`"`+path+`": {"get": {"operationId": "getAny", "parameters": `+parameters+`}},
			"/{zone}/records": {"get": {"operationId": "listRecords"}, "post": {"operationId": "addRecord"}},
			"/{zone}/transfer": {"post": {"operationId": "transferZone"}}, "/i": {"options": {"operationId": "last"}}}}`, openapi.Options{Name: "x"})
		if err != nil {
			t.Fatal(path, err)
		}
		set := parse(t, r)
		for request, want := range map[string]string{
			"GET /a": "api-read", "GET /a/records": "list-records", "POST /a/records": "add-record", "POST /a/transfer": "transfer-zone", "OPTIONS /i": "last",
		} {
			method, target, _ := strings.Cut(request, " ")
			if a := judged(t, set, method, target); a.Name != want || a.GrantsAccess != (want == "transfer-zone") {
				t.Errorf("%s: %s is %s, want %s", path, request, a.Name, want)
			}
		}
		if r.Imported != 4 || len(r.Skipped) != 1 || r.Skipped[0].Operation != "GET "+path || !strings.Contains(r.Skipped[0].Reason, "nothing says which one wins") {
			t.Errorf("%s: %s", path, r.Report())
		}
	}
}

// Where it hands out access, one segment of it is guarded, and the report says that it is no more.
func TestAnOperationThatIsEverythingIsGuardedInPart(t *testing.T) {
	r, err := one(t, head+`"/a": {"get": {}}, "/{path}": {"post": {"operationId": "createKey", "parameters": [{"name": "path", "in": "path", "required": true, "x-multi-segment": true, "schema": {"type": "string"}}]}}}}`, openapi.Options{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	set := parse(t, r)
	if a := judged(t, set, "POST", "/x"); !a.GrantsAccess || judged(t, set, "POST", "/x/y").Name != "api-write" {
		t.Errorf("POST /x is %s\n%s", a.Name, r.YAML)
	}
	if want := "note: POST /{path} may do more than any other read or write, and is told from them at /{part1} alone"; !strings.Contains(r.Report(), want) {
		t.Errorf("%s", r.Report())
	}
}
