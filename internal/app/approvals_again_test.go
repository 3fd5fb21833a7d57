package app_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const kindsService = `name: kinds
version: 1.0.0
description: A list with a default, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  close: {description: Close, method: DELETE, path: /kinds, args: [{name: kinds, type: array, default: [stale]}]}
`

// What was asked about is what is done after the yes: a list that was said to be empty does
// not become the default then.
func TestAYesIsForTheListAsItWasSaid(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{
		Services: []string{kindsService}, Policy: "version: 1\nrules: [{name: ask, match: {action: kinds.close}, then: require_approval}]\n",
	})
	req := &runtime.Request{Surface: runtime.SurfaceCall, Caller: k.App.Local(), Action: "kinds.close", Args: runtime.Args{"kinds": []any{}}}
	err := k.App.Pipeline().Do(t.Context(), req, &app.Answer{})
	id := runtime.AsError(err).ApprovalID
	person := k.Open(t, "person")
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Open(t, "other").WaitApproval(t.Context(), id, &app.Answer{}, nil); err != nil {
		t.Fatal(err)
	}
	if sent := k.Up.Requests(); len(sent) != 1 || sent[0].Target != "/kinds" {
		t.Errorf("sent %+v", sent)
	}
}
