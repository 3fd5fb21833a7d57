package app_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

const pagedNotes = apptest.Notes + `  list-notes: {description: List, method: GET, path: "/pages/{how}", risk: {level: low}, args: [{name: how, type: string, required: true}], pagination: {type: link}}
`

// What an upstream refuses is no fault of the server that says so. Its line in the log has
// whose request it was and how it ended, and none of the upstream's words.
func TestARefusalOfAnUpstreamIsNoErrorInTheLog(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Services: []string{pagedNotes}, Upstream: refusing()})
	c := newAPI(t, k)
	token, _ := tokenOf(t, k, app.TokenGrant{})
	daemon, _ := daemonOf(t, k)
	const gone = `{"input":{"how":"gone"}}`
	for name, got := range map[string]heard{
		"serve":           c.ask(t, token, "POST", "/v1/actions/notes/read-as:execute", gone),
		"serve, of pages": c.ask(t, token, "POST", "/v1/actions/notes/list-notes:execute", `{"input":{"how":"gone"},"all":true}`),
		"the daemon":      daemon.ask(t, "", "POST", "/v1/actions/notes/read-as:execute", gone),
	} {
		if got.Status != 502 || !strings.Contains(got.Body, `"upstream":"{\"error\":\"said by the upstream\"}"`) {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		var line map[string]any
		for text := range strings.SplitSeq(k.Log.String(), "\n") {
			if strings.Contains(text, got.Header.Get("X-Request-Id")) && strings.Contains(text, `"code"`) {
				_ = json.Unmarshal([]byte(text), &line)
			}
		}
		for field, want := range map[string]any{
			"level": "info", "message": "request", "code": "upstream", "tenant": "default", "method": "POST", "status": 502.0, "upstream_status": 404.0,
		} {
			if line[field] != want {
				t.Errorf("%s: %s is %v in %v", name, field, line[field], line)
			}
		}
		if action, _ := line["action"].(string); !strings.HasPrefix(action, "notes.") {
			t.Errorf("%s: no action in %v", name, line)
		}
	}
	if strings.Contains(k.Log.String(), "said by the upstream") {
		t.Error("the log has the upstream's words")
	}
}
