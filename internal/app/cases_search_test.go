package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// What is searched for is compared with every action, by the process that serves all
// callers and where no limit of a script ends it: with some hundred actions one query of a
// mebibyte took half a minute, beyond any --timeout. So it is refused for its length, at
// every door; and so are a path that is longer than any tool's, and a list of patterns
// that each call would be compared with.
func TestWhatIsComparedWithEveryActionIsShort_EX020(t *testing.T) {
	t.Parallel()
	k, client := scripting(t, apptest.Options{})
	for name, code := range map[string]string{
		"a query": `await tools.search({query: "no ".repeat(300_000)})`,
		"a path":  `await tools.describe.tool({path: "notes." + "a-".repeat(500_000)})`,
	} {
		got := execute(t, client, `try { `+code+` } catch (e) { return e.code + ": " + e.message }`)
		if value := string(got.Value); !strings.HasPrefix(value, `"invalid_input: `) || !strings.Contains(value, "bytes") || len(value) > 1000 {
			t.Errorf("%s: %.300s", name, got.text)
		}
	}
	many := make([]string, 101)
	for i := range many {
		many[i] = "notes.*"
	}
	for name, allow := range map[string][]string{"many patterns": many, "a long pattern": {strings.Repeat("*a", 200)}} {
		got := post(t, client, "/v1/exec", map[string]any{"code": "return 1", "allow": allow}, "")
		if got.status != http.StatusBadRequest || !strings.Contains(got.text, "invalid_input") || !strings.Contains(got.text, "allow") {
			t.Errorf("%s: %d %.300s", name, got.status, got.text)
		}
	}
	if got := post(t, client, "/v1/exec", map[string]any{"code": "return 1", "allow": many[:100]}, ""); !got.Success {
		t.Errorf("a hundred: %s", got.text)
	}

	session := mcpProcess(t, k)
	for tool, args := range map[string]map[string]any{
		"search":   {"query": strings.Repeat("no ", 300_000)},
		"describe": {"name": "notes." + strings.Repeat("a-", 500_000)},
		"call":     {"action": strings.Repeat("a", 3_000_000)},
		"execute":  {"code": "return 1", "allow": many},
	} {
		got := use(t, session, tool, args)
		if !got.Failed || got.Error.Code != "invalid_input" && got.Error.Code != "unknown_action" || len(got.Text) > 2000 {
			t.Errorf("%s: %+.500v", tool, got)
		}
	}

	token, _ := mcpToken(t, k.Open(t, ""), "rest", "notes.*")
	answer := newAPI(t, k).ask(t, token, "GET", "/v1/tools/search?query="+strings.Repeat("no+", 5000), "")
	if answer.Status != http.StatusBadRequest || !strings.Contains(answer.Body, "invalid_input") {
		t.Errorf("%d %.300s", answer.Status, answer.Body)
	}
}
