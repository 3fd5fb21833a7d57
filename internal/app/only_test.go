package app_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// keys lives at the host of [apptest.Notes] and says more of one path than it does.
const keys = `name: keys
version: 1.0.0
description: Keys, at the same host
base_url: HOST
auth: {type: none}
actions:
  read-key: {description: Read a key, method: GET, path: /secret, risk: {level: critical}}
`

// A command that loads the services that it names judges a request as it would be
// judged with all of them: one that is another service's action is refused.
func TestNamedServicesDoNotHideThoseOfTheirHost(t *testing.T) {
	t.Parallel()
	for name, host := range map[string]string{
		"plain":                  "https://api.notes.test",
		"in capitals, with port": "https://API.Notes.test:443",
		"escaped":                `"https://api.not\x65s.test"`,
		"over two lines":         "\"https://api.no\\\n  tes.test\"",
		"in wide letters":        "https://\uff41pi.notes.test",
		"wide, in a URL":         "https://%EF%BD%81pi.notes.test",
		"a further host":         "https://keys.test\nhosts: [api.notes.test]",
	} {
		t.Run(name, func(t *testing.T) {
			k := apptest.New(t, apptest.Options{Services: []string{apptest.Notes, strings.Replace(keys, "HOST", host, 1), second}})
			for _, only := range [][]string{nil, {"notes"}} {
				o := apptest.OptionsOver(k.Dir, "", k.Log, false)
				o.Only = only
				a, err := app.New(o)
				if err != nil {
					t.Fatal(err)
				}
				if err := a.Open(t.Context()); err != nil {
					t.Fatal(err)
				}
				_, err = a.Services().Resolve(&runtime.Request{Action: "notes.read-as", Args: runtime.Args{"how": "secret"}})
				if err == nil || !strings.Contains(err.Error(), "keys.read-key") {
					t.Errorf("with %v: %v", only, err)
				}
				if _, err = a.Services().Resolve(&runtime.Request{Action: "notes.read-as", Args: runtime.Args{"how": "open"}}); err != nil {
					t.Error(err)
				}
				if _, there := a.Services().Service("second"); there != (only == nil) {
					t.Errorf("with %v the service of another host is there: %v", only, there)
				}
				if err := a.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
