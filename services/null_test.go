package services_test

import (
	"reflect"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const issues = `
name: issues
version: 1.0.0
base_url: https://api.issues.test
strict: true
actions:
  update:
    description: Change one
    method: PATCH
    path: /issues/{id}
    args:
      - {name: title}
      - {name: assignee, nullable: true, enum: [a, b]}
      - {name: milestone, type: integer, minimum: 1, nullable: true, required: true}
      - {name: order, type: integer, nullable: true, default: 3}
`

// issuesSet is a set of that service alone.
func issuesSet(t *testing.T) *services.Set {
	t.Helper()
	return servicestest.Set(t, "issues.yaml", issues)
}

// Null is a value of an argument that may be null: it stands for itself beside enum,
// bounds, required and default. Of any other argument it counts as not given.
func TestNullIsAValueWhereItMayBe(t *testing.T) {
	set := issuesSet(t)
	for name, c := range map[string]struct {
		given, want runtime.Args
		refused     bool
	}{
		"null":     {given: runtime.Args{"id": "1", "title": nil, "assignee": nil, "milestone": nil, "order": nil}, want: runtime.Args{"id": "1", "assignee": nil, "milestone": nil, "order": nil}},
		"a value":  {given: runtime.Args{"id": "1", "assignee": "a", "milestone": "2"}, want: runtime.Args{"id": "1", "assignee": "a", "milestone": n("2"), "order": n("3")}},
		"required": {given: runtime.Args{"id": "1", "assignee": nil}, refused: true},
		"path":     {given: runtime.Args{"id": nil, "milestone": nil}, refused: true},
		"enum":     {given: runtime.Args{"id": "1", "assignee": "null", "milestone": nil}, refused: true},
	} {
		found, err := set.Resolve(&runtime.Request{Action: "issues.update", Args: c.given})
		args := found.Args
		if (err != nil) != c.refused || err == nil && !reflect.DeepEqual(args, c.want) {
			t.Errorf("%s: %v, %v", name, args, err)
		}
	}
}

// A request of a caller's own is read in the same way.
func TestNullIsReadBackFromABody(t *testing.T) {
	set := issuesSet(t)
	for text, want := range map[string]runtime.Args{
		`{"title":null,"assignee":null,"milestone":null}`: {"id": "1", "assignee": nil, "milestone": nil},
		`{"assignee":"b","milestone":4,"order":null}`:     {"id": "1", "assignee": "b", "milestone": n("4"), "order": nil},
		`{"assignee":null}`:                               nil, // milestone is required, and the service strict
	} {
		body, err := classifier.ParseBody("application/json", "", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		target := runtime.Target{Scheme: "https", Authority: "api.issues.test:443", Method: "PATCH", Path: "/issues/1"}
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: target.Authority, Method: "PATCH", Target: target.Path, Body: body})
		if err != nil || m.Action != "issues.update" {
			t.Fatal(m.Action, err)
		}
		found, err := set.Resolve(&runtime.Request{Action: "issues.update", Args: m.Args, Raw: &runtime.Raw{}, Target: target})
		args := found.Args
		if (err != nil) != (want == nil) || err == nil && !reflect.DeepEqual(args, want) {
			t.Errorf("%s: %v, %v", text, args, err)
		}
	}
}
