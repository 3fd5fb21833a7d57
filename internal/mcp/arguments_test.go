package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Arguments that are not what a tool takes are answered in the words of the tool: which one,
// what it must be, and which there are. A model reads it, and mends its call by it.
func TestWhatIsWrongWithArgumentsIsSaid(t *testing.T) {
	session := serve(t, whole(), "", nil)
	for _, c := range []struct{ tool, args, want, hint string }{
		{"search", `{"limit":"5"}`, "limit must be a whole number", "the members here are: query, limit, offset"},
		{"search", `{"limit":1.5}`, "limit must be a whole number", "limit"},
		{"search", `{"query":["a"]}`, "query must be text", "query"},
		{"search", `{"qurey":"a"}`, `there is no member "qurey"; did you mean query?`, "query, limit, offset"},
		{"search", `{"Query":"a"}`, `there is no member "Query"; did you mean query?`, "query, limit, offset"},
		{"search", `{"query":"a","query":"b"}`, `"query" stands twice in one object`, "inputSchema"},
		{"search", `["query"]`, "it is not an object", "query, limit, offset"},
		{"describe", `{"name":1}`, "name must be text", "the members here are: name"},
		{"call", `{"action":"a.b","args":[]}`, "args must be an object", "action, args, wait"},
		{"call", `{"action":"a.b","args":"{}"}`, "args must be an object", "action, args, wait"},
		{"call", `{"action":"a.b","args":{"n":1,"n":2}}`, `"n" stands twice in one object`, "inputSchema"},
		{"call", `{"action":"a.b","wait":"1m"}`, "wait must be seconds, a number from 0 to 300", "action, args, wait"},
		{"call", `{"action":"a.b","wait":301}`, "wait must be seconds, a number from 0 to 300", "action, args, wait"},
		{"call", `{"action":"a.b","owner":"x"}`, `there is no member "owner"`, "action, args, wait"},
		{"execute", `{"code":["return 1"]}`, "code must be text", "code, allow, timeoutMs, wait"},
		{"execute", `{"code":"x","allow":"github.*"}`, "allow must be a list of text", "allow"},
		{"execute", `{"code":"x","timeoutMs":"1s"}`, "timeoutMs must be a whole number", "timeoutMs"},
		{"execute", `{"code":"x","timeout":1}`, `there is no member "timeout"; did you mean timeoutMs?`, "timeoutMs"},
		{"resume", `{"id":true}`, "id must be text", "the members here are: id, wait"},
	} {
		r, text := call(t, session, c.tool, json.RawMessage(c.args))
		said, _ := json.Marshal(r.StructuredContent)
		var p struct{ Error runtime.Problem }
		if err := json.Unmarshal(said, &p); err != nil {
			t.Fatal(err)
		}
		if !r.IsError || p.Error.Code != runtime.CodeInvalidInput ||
			!strings.HasPrefix(p.Error.Detail, "the arguments of the tool are not understood: "+c.want) || !strings.Contains(p.Error.Hint, c.hint) {
			t.Errorf("%s %s: %s", c.tool, c.args, text)
		}
		for _, words := range []string{"EOF", "unmarshal", "json:", "Go ", "mcp.", "runtime.", "field"} {
			if strings.Contains(text, words) {
				t.Errorf("%s %s is answered with %q: %s", c.tool, c.args, words, text)
			}
		}
	}
}

// What a tool cannot do without is asked for by its name, and nothing is done.
func TestAMissingArgumentIsNamed(t *testing.T) {
	session := serve(t, whole(), "", nil) // whose describe panics
	for tool, want := range map[string]string{
		"describe": "name is missing", "call": "action is missing", "execute": "code is missing", "resume": "id is missing",
	} {
		for _, args := range []string{`{}`, `null`} {
			if r, text := call(t, session, tool, json.RawMessage(args)); !r.IsError || !strings.HasPrefix(text, "invalid_input: "+want) {
				t.Errorf("%s %s: %s", tool, args, text)
			}
		}
	}
}

// A search keeps to the bounds that its schema tells: one that asks for more is told so, and
// does not take what it got for all there is.
func TestASearchKeepsToItsBounds(t *testing.T) {
	session := serve(t, whole(), "", nil)
	for args, want := range map[string]string{
		`{"limit":101}`: "limit is not from 1 to 100", `{"limit":0}`: "limit is not from 1 to 100",
		`{"limit":-1}`: "limit is not from 1 to 100", `{"offset":-1}`: "offset is negative",
		`{"limit":100,"offset":0}`: "", `{"limit":1}`: "", `{"limit":5.0,"offset":1e1}`: "", `{"limit":null}`: "", `{}`: "",
	} {
		if r, text := call(t, session, "search", json.RawMessage(args)); r.IsError != (want != "") || want != "" && !strings.HasPrefix(text, "invalid_input: "+want) {
			t.Errorf("%s: %s", args, text)
		}
	}
	for _, tool := range (&Server{}).tools() {
		if tool.name == "search" && !strings.Contains(tool.fields, `"maximum":100`) {
			t.Errorf("its schema has another bound: %s", tool.fields)
		}
	}
}
