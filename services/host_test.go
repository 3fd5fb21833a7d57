package services

import (
	"net/http"
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

const twoHosts = `
name: acme
version: 1.0.0
base_url: https://api.acme.test/v1
hosts: [files.acme.test]
actions:
  upload: {method: POST, path: "/{name}", host: files.acme.test, args: [{name: text}]}
  write: {method: POST, path: "/**", risk: {level: high}}
`

// An action with a host is called there, known there, and nowhere else.
func TestAnActionIsKeptToItsHost(t *testing.T) {
	s, err := Parse("acme.yaml", []byte(twoHosts))
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewSet([]*Service{s})
	if err != nil {
		t.Fatal(err)
	}
	upload, _ := set.Action("acme.upload")
	if got := upload.HTTP; got.BaseURL != "https://files.acme.test/v1" || len(got.Authorities) != 1 || got.Authorities[0] != "files.acme.test:443" {
		t.Errorf("it is called at %s, %v", got.BaseURL, got.Authorities)
	}
	for authority, want := range map[string]string{"files.acme.test:443": "acme.upload", "api.acme.test:443": "acme.write"} {
		m, err := set.Table().Match(classifier.Input{Scheme: "https", Authority: authority, Method: "POST", Target: "/v1/a", Header: http.Header{}})
		if err != nil || m.Action != want {
			t.Errorf("at %s it is %q, not %q: %v", authority, m.Action, want, err)
		}
	}
	called := &runtime.Request{Action: "acme.upload", Args: runtime.Args{"name": "a", "text": "b"}}
	if _, err := set.Resolve(called); err != nil {
		t.Errorf("a call does not resolve: %v", err)
	}
	received := &runtime.Request{
		Action: "acme.upload", Args: runtime.Args{"name": "a"}, Raw: &runtime.Raw{Header: http.Header{}},
		Target: runtime.Target{Scheme: "https", Authority: "api.acme.test:443", Method: "POST", Path: "/v1/a"},
	}
	if _, err := set.Resolve(received); err == nil {
		t.Error("it was taken from another host of the service")
	}
}
