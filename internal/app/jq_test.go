package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// What nests until Go ends the process, and what is one step that takes all memory.
const (
	nesting = "reduce range(22) as $i ([0]; .+.) | . as $p | null | setpath($p;1) | length"
	growing = "reduce range(34) as $i (0; [., .]) | tojson | length"
)

// An expression of a service file takes down nothing that serves others: not over REST, not
// for a model, not as the next page. The one who called is told what was wrong with it.
func TestAnExpressionEndsNothingButItself(t *testing.T) {
	t.Parallel()
	const page = `{"n":12345678901234567890,"f":1.50,"list":[3,1,2]}`
	action := func(name, more string) string {
		return fmt.Sprintf("  %s: {description: Filtered, method: GET, path: /page/%s, idempotent: true, risk: {level: low}, args: [{name: at, type: string}], %s}\n", name, name, more)
	}
	filtered := func(name, filter string) string { return action(name, fmt.Sprintf("response: {filter: %q}", filter)) }
	say := func(c *servicestest.Conn, _ *servicestest.Request) bool {
		return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(page), page))
	}
	routes := map[string]servicestest.Behave{}
	for _, name := range []string{"deep", "endless", "several", "next"} {
		routes["/page/"+name] = say
	}
	k := apptest.New(t, apptest.Options{
		Services: []string{apptest.Notes + filtered("deep", nesting) + filtered("endless", growing) + filtered("several", "(.n | tojson), (.list | sort), [.n, .f]") +
			action("next", fmt.Sprintf("pagination: {type: cursor, next: %q, param: at}", nesting))},
		Scripts:  apptest.Worker(t),
		Upstream: servicestest.Options{Routes: routes},
	})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	c := newAPI(t, k)
	works := func() {
		t.Helper()
		const want = "\"12345678901234567890\"\n[1,2,3]\n[12345678901234567890,1.50]\n"
		if got := c.ask(t, token, "POST", "/v1/actions/notes/several:execute", `{"input":{},"raw":true}`); got.Status != http.StatusOK || got.Body != want {
			t.Errorf("%d %q", got.Status, got.Body)
		}
	}
	works()
	for name, input := range map[string]string{"deep": `{"input":{}}`, "endless": `{"input":{}}`, "next": `{"input":{},"all":true}`} {
		got := c.ask(t, token, "POST", "/v1/actions/notes/"+name+":execute", input)
		if p := got.problem(t); !strings.Contains(p.Detail, "took more than") || p.Code == runtime.CodeInternal {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
	works()

	model, _ := mcpToken(t, k.Open(t, ""), "model", "notes.*")
	if got := use(t, mcpOver(t, mcpServer(t, k), model), "call", map[string]any{"action": "notes.deep"}); !got.Failed || !strings.Contains(got.Error.Detail, "took more than") {
		t.Errorf("%+v", got)
	}
	works()
}
