package services_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

const loose = `
name: loose
version: 1.0.0
base_url: https://api.loose.test
actions:
  list:
    description: Some
    method: GET
    path: /list
    args: [{name: deleted, type: boolean, required: true}, {name: dry, type: boolean, enum: [true]}]
`

// A boolean that not all servers read alike is there, but for a bound on its value
// it could be any.
func TestABooleanInAnotherSpellingIsThere(t *testing.T) {
	all := set(t, loose)
	for query, refused := range map[string]string{
		"deleted=true":           "",
		"deleted=True":           "",
		"deleted=0":              "",
		"":                       `"deleted" of loose.list is required`,
		"deleted=1&dry=true":     "",
		"deleted=true&dry=false": "must be one of",
		"deleted=true&dry=False": "must be one of",
		"deleted=true&dry=1":     "true or false",
	} {
		target := runtime.Target{Scheme: "https", Authority: "api.loose.test:443", Method: "GET", Path: "/list"}
		m, err := all.Table().Match(classifier.Input{Scheme: "https", Authority: target.Authority, Method: "GET", Target: "/list?" + query})
		if err == nil {
			_, err = all.Resolve(&runtime.Request{Action: "loose.list", Args: m.Args, Astray: m.Astray, Raw: &runtime.Raw{}, Target: target})
		}
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%q: got %v, want %q", query, err, refused)
		}
	}
}
