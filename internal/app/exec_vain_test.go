package app_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// A yes for a while is for the rule that asked. Where another rule asks about the held call now, the
// script is paused again, and not tried again and again; what a person says to it still counts.
func TestAYesOfAnotherRuleTriesAPausedScriptOnce(t *testing.T) {
	t.Parallel()
	rule := func(name string) string {
		return "version: 1\nrules:\n  - {name: " + name + ", match: {action: notes.create-note}, then: require_approval}\n"
	}
	k, client := scripting(t, apptest.Options{Policy: rule("ask")})
	create := func(text string) scripted {
		return execute(t, client, `return await tools.notes.createNote({text: "`+text+`"}).then(() => "made")`)
	}
	paused, like := create("one"), create("two")
	if paused.Paused == nil || like.Paused == nil {
		t.Fatalf("%s %s", paused.text, like.text)
	}
	person := k.Open(t, "")
	if _, err := person.Accept(t.Context(), like.Paused.ApprovalID, app.Yes{For: 10 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	k.Write(t, "policy.yaml", rule("renamed"))
	apptest.Eventually(t, "the other rule asks", func() bool { return create("three").Paused != nil })
	resume := "/v1/exec/" + paused.ExecutionID + "/resume"
	for range 2 {
		if again := post(t, client, resume, map[string]any{}, ""); again.Paused == nil || again.Paused.ApprovalID != paused.Paused.ApprovalID {
			t.Fatalf("%s", again.text)
		}
	}
	if _, err := person.Accept(t.Context(), paused.Paused.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if end := post(t, client, resume, map[string]any{}, ""); string(end.Value) != `"made"` {
		t.Errorf("%s", end.text)
	}
}
