package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// What a model reads that gets the text alone. A service that has nothing to say, as after
// a delete, has said that it was done.
func TestWhatIsReadOfAnAnswer(t *testing.T) {
	for _, c := range []struct {
		of         Answer
		text, body string
	}{
		{Answer{Status: 204}, "done: status 204, no content", `{"result":null,"status":204}`},
		{Answer{Status: 200, Value: json.RawMessage("null")}, "null", `{"result":null,"status":200}`},
		{Answer{Status: 200, Value: json.RawMessage(`"gone"`)}, "gone", `{"result":"gone","status":200}`},
		{Answer{Status: 201, Value: json.RawMessage(`{"id":7}`)}, `{"id":7}`, `{"result":{"id":7},"status":201}`},
	} {
		got, err := answered(c.of, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(got.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Content[0].(*sdk.TextContent).Text; text != c.text || string(body) != c.body {
			t.Errorf("%d %s: text %q and %s", c.of.Status, c.of.Value, text, body)
		}
	}
}

// A script that waits says so where a call does, and that it goes on by its own id.
func TestAScriptThatWaitsSaysHowItGoesOn(t *testing.T) {
	got, err := executed(Execution{Body: map[string]any{"calls": []int{}}, ID: "exe_1", Approval: "apr_1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Calls   []int
		Pending struct{ ApprovalID, ExecutionID, Next string }
	}
	if err := json.Unmarshal(got.StructuredContent.(json.RawMessage), &body); err != nil {
		t.Fatal(err)
	}
	if p := body.Pending; body.Calls == nil || p.ApprovalID != "apr_1" || p.ExecutionID != "exe_1" || !strings.Contains(p.Next, `{"id": "exe_1"}`) || strings.Contains(p.Next, "apr_1") {
		t.Errorf("%s", got.StructuredContent)
	}
	for _, word := range []string{"approvalId", "executionId", "next"} {
		if !strings.Contains(instructions, word) {
			t.Errorf("the instructions do not name %s", word)
		}
	}
}

// A model is sent to the tools that it has: to no command, page of the REST API or proxy.
func TestHintsNameTools(t *testing.T) {
	const describe = "kimbap actions describe a.b"
	for want, e := range map[string]*runtime.Error{
		`describe {"name": "a.b"}`:         {Code: runtime.CodeInvalidInput, Action: "a.b", Hint: describe, Ask: "describe a.b: GET /v1/actions/a/b"},
		`look: describe {"name": "a.b"}`:   {Code: runtime.CodeInvalidInput, Action: "a.b", Hint: "look: " + describe},
		`search finds it: {"query": "…"}`:  {Code: runtime.CodeUnknownAction, Action: "a.x", Hint: "kimbap actions list a", Ask: "list the actions: GET /v1/actions"},
		"did you mean a.b?":                {Code: runtime.CodeUnknownAction, Action: "a.x", Hint: "did you mean a.b?"},
		"the owner starts the run again":   {Code: runtime.CodeUnauthenticated, Hint: "the owner starts the run again"},
		"show another token: in KIMBAP_TO": {Code: runtime.CodeUnauthenticated, Hint: "show a token as user or password of the proxy URL"},
	} {
		var body struct {
			Error struct {
				Status int
				Hint   string
			}
		}
		if err := json.Unmarshal(failed(e).StructuredContent.(json.RawMessage), &body); err != nil {
			t.Fatal(err)
		}
		if got := body.Error; !strings.HasPrefix(got.Hint, want) || got.Status == http.StatusProxyAuthRequired {
			t.Errorf("%+v, want %s", got, want)
		}
	}
}
