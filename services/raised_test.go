package services_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/services"
)

// A risk that a project raises decides like one of the file itself: of a document with two
// actions it is the worse, and a near miss of its path is refused.
func TestARaisedRiskIsTheWorst(t *testing.T) {
	t.Parallel()
	const text = `name: a
version: 1.0.0
base_url: https://a.test
actions:
  purge: {method: POST, path: /graphql, match: {graphql: {type: mutation, fields: [purge]}}, risk: {level: LEVEL}}
  edit: {method: POST, path: /graphql, match: {graphql: {type: mutation, fields: [edit]}}, risk: {level: high}}
  write: {method: POST, path: /v2/**, risk: {level: medium}}
  drop: {method: POST, path: /v2/Things/x, risk: {level: LEVEL}}
`
	of := func(file, level string) *services.Service {
		s, err := services.Parse(file, []byte(strings.ReplaceAll(text, "LEVEL", level)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	narrowed, err := services.Narrow([]*services.Service{of("a.yaml", "medium")}, []*services.Service{of("p.yaml", "critical")}, false, "k")
	if err != nil {
		t.Fatal(err)
	}
	raised, err := services.NewSet(narrowed)
	if err != nil {
		t.Fatal(err)
	}
	itself, err := services.NewSet([]*services.Service{of("a.yaml", "critical")})
	if err != nil {
		t.Fatal(err)
	}
	body, err := classifier.ParseBody("application/json", "", []byte(`{"query":"mutation{edit purge}"}`))
	if err != nil {
		t.Fatal(err)
	}
	for target, action := range map[string]string{"/graphql": "a.purge", "/v2/things/x": "", "/v2/Things/x": "a.drop", "/v2/other": "a.write"} {
		in := classifier.Input{Scheme: "https", Authority: "a.test:443", Method: "POST", Target: target, Header: http.Header{}, Body: body}
		got, err := raised.Table().Match(in)
		want, wantErr := itself.Table().Match(in)
		if got.Action != action || want.Action != action || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: raised %q, %v; in the file %q, %v; want %q", target, got.Action, err, want.Action, wantErr, action)
		}
	}
}
