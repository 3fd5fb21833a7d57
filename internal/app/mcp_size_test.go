package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What a tool gives of an answer is bounded after the action's filter, whatever that
// makes of it, and where a person had to decide first. What is too much says that the
// action was done: a model would do it again.
func TestMCPResultsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	say := func(size int) servicestest.Behave { // JSON of so many bytes
		body := `{"id":7,"text":"` + strings.Repeat("a", size-len(`{"id":7,"text":""}`)) + `"}`
		return func(c *servicestest.Conn, _ *servicestest.Request) bool {
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		}
	}
	filtered := func(name, filter string) string {
		return fmt.Sprintf("  %s: {description: Filtered, method: GET, path: \"/%s/{how}\", idempotent: true, risk: {level: low}, args: [{name: how, type: string, required: true}], response: {filter: %q}}\n", name, name, filter)
	}
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes + filtered("less", ".id") + filtered("same", ".") + filtered("more", "[range(64) as $i | .]")},
		Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
			"/whole": say(most), "/over": say(most + 1), "/less/large": say(3 * most), "/same/whole": say(most),
			"/same/over": say(most + 1), "/same/large": say(3 * most), "/more/small": say(most / 16), "/notes/9": say(2 * most), "/notes/8": say(most),
		}},
	})
	token, _ := mcpToken(t, k.Open(t, ""), "sized", "notes.*")
	session := mcpOver(t, mcpServer(t, k), token)
	check := func(t *testing.T, got toolAnswer, fits, done bool) {
		t.Helper()
		if len(got.Result) > most || got.Failed == fits {
			t.Errorf("failed %v with %d bytes, %+v", got.Failed, len(got.Result), got.Error)
		}
		if !fits && !strings.Contains(got.Error.Detail+got.Error.Hint, "was done") {
			t.Errorf("it would be done again: %+v", got.Error)
		}
		if !fits && (got.Error.Reason != "body_too_large" || !strings.Contains(got.Error.Detail, "1 MiB") || got.Error.Hint == "" || strings.Contains(got.Error.Detail, "was done") != done) {
			t.Errorf("%+v", got.Error)
		}
	}
	for _, c := range []struct {
		action, how string
		fits, done  bool
	}{
		{"read-as", "whole", true, false}, {"read-as", "over", false, false},
		{"less", "large", true, false}, {"same", "whole", true, false},
		{"same", "over", false, true}, {"same", "large", false, true}, {"more", "small", false, true},
	} {
		t.Run(c.action+" "+c.how, func(t *testing.T) {
			check(t, use(t, session, "call", map[string]any{"action": "notes." + c.action, "args": map[string]any{"how": c.how}}), c.fits, c.done)
		})
	}
	for id, fits := range map[int]bool{8: true, 9: false} {
		t.Run(fmt.Sprintf("after a yes, %v", fits), func(t *testing.T) {
			asked := use(t, session, "call", map[string]any{"action": "notes.delete-note", "args": map[string]any{"id": id}})
			if _, err := k.Open(t, "").Accept(t.Context(), asked.Pending.ApprovalID, app.Yes{}); err != nil {
				t.Fatal(err)
			}
			check(t, use(t, session, "resume", map[string]any{"id": asked.Pending.ApprovalID}), fits, !fits)
		})
	}
}
