package services_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const (
	asksForItems = `name: demo
version: 1.0.0
description: d
base_url: https://api.demo.test
auth: {type: none}
actions:
  ask: {description: d, method: POST, path: "/ask/{id}", risk: {level: high}, args: [{name: id, type: string, required: true}]}
`
	asksAndWipes = asksForItems + `  wipe: {description: d, method: POST, path: /ask/all, risk: {level: critical}}
`
	wipesByBody = asksForItems + `  wipe: {description: d, method: POST, path: "/ask/{id}", match: {body: {/kind: wipe}}, risk: {level: critical}, args: [{name: id, type: string, required: true}]}
`
)

// A person says yes to an action. Once a service has come that has a worse one for just
// these bytes, that is no yes to it; a request that has not waited was recognised just now.
func TestARequestThatWaitedIsTheSameActionStill(t *testing.T) {
	for name, c := range map[string]struct {
		now, path, body string
		waited, refused bool
	}{
		"nothing has changed":             {asksForItems, "/ask/all", "", true, false},
		"a worse route":                   {asksAndWipes, "/ask/all", "", true, true},
		"it has not waited":               {asksAndWipes, "/ask/all", "", false, false},
		"a worse route for another path":  {asksAndWipes, "/ask/7", "", true, false},
		"a worse route for its body":      {wipesByBody, "/ask/7", `{"kind":"wipe"}`, true, true},
		"for another body":                {wipesByBody, "/ask/7", `{"kind":"look"}`, true, false},
		"for a body that nobody can read": {wipesByBody, "/ask/7", `{"kind":`, true, true},
	} {
		raw := &runtime.Raw{Header: http.Header{"Content-Type": {"application/json"}}}
		if c.body != "" {
			raw.Body, raw.ContentLength = io.NopCloser(strings.NewReader(c.body)), int64(len(c.body))
			if _, err := raw.Buffer(1 << 20); err != nil {
				t.Fatal(err)
			}
		}
		_, err := set(t, c.now).Resolve(&runtime.Request{
			Action: "demo.ask", Args: runtime.Args{"id": strings.TrimPrefix(c.path, "/ask/")}, Raw: raw, Waited: c.waited,
			Target: runtime.Target{Scheme: "https", Authority: "api.demo.test:443", Method: "POST", Path: c.path},
		})
		if (err != nil) != c.refused || err != nil && runtime.CodeOf(err) != runtime.CodeForbidden {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// So it is with a request that kimbap made of a redirect or a page.
func TestAFollowedRequestThatWaitedIsTheSameActionStill(t *testing.T) {
	for now, refused := range map[string]bool{asksForItems: false, asksAndWipes: true} {
		_, err := set(t, now).Resolve(&runtime.Request{
			Action: "demo.ask", Args: runtime.Args{"id": "all"}, Raw: &runtime.Raw{Header: http.Header{}}, Waited: true, Followed: true,
			Target: runtime.Target{Scheme: "https", Authority: "api.demo.test:443", Method: "POST", Path: "/ask/all"},
		})
		if (err != nil) != refused {
			t.Errorf("refused %v, want %v: %v", err != nil, refused, err)
		}
	}
}
