package app_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// A yes to what a paused script asked is used by the script, which gets the answer: by its id
// alone nobody collects it, before the decision or after. What a script has left open when it
// ended can be collected.
func TestAPausedScriptsYesIsCollectedByTheScriptAlone(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	agent, _ := tokenOf(t, k, app.TokenGrant{})
	rest, session := newAPI(t, k), mcpProcess(t, k, "KIMBAP_TOKEN="+agent)
	got := use(t, session, "execute", map[string]any{"code": `await Promise.race([7, 8].map(id => tools.notes.deleteNote({id}))); return "gone"`})
	if got.Paused == nil {
		t.Fatalf("%+v", got)
	}
	id, script := got.Paused.ApprovalID, got.Paused.ExecutionID
	collect := func(id string) heard {
		return rest.ask(t, agent, "POST", "/v1/approvals/"+id+":result", `{"wait": "1m"}`)
	}
	refused := func(when string) {
		t.Helper()
		if by := use(t, session, "resume", map[string]any{"id": id}); !by.Failed || by.Error.Code != "invalid_input" || !strings.Contains(by.Error.Hint, script) {
			t.Errorf("%s, by MCP: %+v", when, by)
		}
		if by := collect(id).problem(t); by.Code != runtime.CodeInvalidInput || !strings.Contains(by.Hint, script) {
			t.Errorf("%s, over REST: %+v", when, by)
		}
	}
	refused("undecided")
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	refused("accepted")
	if n := len(k.Up.Requests()); n != 0 {
		t.Errorf("%d requests left", n)
	}
	if end := use(t, session, "resume", map[string]any{"id": script, "wait": 60}); string(end.Value) != `"gone"` {
		t.Errorf("%+v", end)
	}
	left := ""
	apptest.Eventually(t, "the end of the script is kept", func() bool {
		list, err := person.ListApprovals(t.Context(), false)
		if err == nil && len(list) == 1 && list[0].Over {
			left = list[0].ID
		}
		return left != ""
	})
	if _, err := person.Accept(t.Context(), left, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if by := collect(left); by.Status != 200 || len(k.Up.Requests()) != 2 {
		t.Errorf("%+v, %d requests left", by, len(k.Up.Requests()))
	}
}

// The same of the command that collects: it says which one goes on with the script.
func TestACommandDoesNotCollectForAPausedScript(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	got := execute(t, client, `return await tools.notes.deleteNote({id: 7})`)
	if got.Paused == nil {
		t.Fatalf("%s", got.text)
	}
	_, _, err := k.Open(t, "other").WaitApproval(t.Context(), got.Paused.ApprovalID, &app.Answer{}, nil)
	if e := runtime.AsError(err); e == nil || e.Code != runtime.CodeInvalidInput || !strings.HasPrefix(e.Hint, "kimbap exec --resume "+got.ExecutionID+",") {
		t.Errorf("%v", err)
	}
}
