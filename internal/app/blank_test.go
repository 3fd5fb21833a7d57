package app_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const targets = `name: targets
version: 1.0.0
description: One path and a field of the head, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  do: {description: Do, method: POST, path: /, risk: {level: low}, args: [{name: target, required: true}], request: {headers: {X-Target: "{target}"}}}
`

// A blank at either end of a field is no part of it to whoever reads it, so that no
// value that a rule denies is another one with it.
func TestAFieldOfABuiltRequestHasNoBlanksAround(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{targets}, Policy: `version: 1
rules: [{name: drops, match: {action: targets.do}, when: 'args.target == "Drop"', then: deny}]
`})
	for target, want := range map[string]runtime.Code{
		"List": "", "Drop": runtime.CodeForbidden,
		" Drop": runtime.CodeInvalidInput, "Drop ": runtime.CodeInvalidInput, "\tDrop": runtime.CodeInvalidInput,
	} {
		before := len(k.Up.Requests())
		req := &runtime.Request{Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "targets.do", Args: runtime.Args{"target": target}}
		err := k.App.Pipeline().Do(t.Context(), req, &app.Answer{})
		if code := runtime.CodeOf(err); code != want {
			t.Errorf("%q: %q, %v", target, code, err)
		}
		if want != "" && len(k.Up.Requests()) != before {
			t.Errorf("%q: the upstream read %q", target, k.Up.Last(t).Header["X-Target"])
		}
	}
}
