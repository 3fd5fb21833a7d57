package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// A service that puts bytes into its JSON that are no UTF-8 breaks no client: one that
// reads strictly would lose the whole MCP session over them. Who wants them has raw.
func TestAnswersAreUTF8(t *testing.T) {
	t.Parallel()
	const said = "{\"name\":\"caf\xe9 \xed\xa0\x80\"}"
	k := apptest.New(t, apptest.Options{Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
		"/latin": func(c *servicestest.Conn, _ *servicestest.Request) bool {
			return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(said), said))
		},
	}}})
	token, _ := tokenOf(t, k, app.TokenGrant{})
	c := newAPI(t, k)
	const page = "/v1/actions/notes/read-as:execute"
	whole := c.ask(t, token, "POST", page, `{"input":{"how":"latin"}}`)
	var answer struct{ Result struct{ Name string } }
	if err := json.Unmarshal([]byte(whole.Body), &answer); err != nil || !utf8.ValidString(whole.Body) || !strings.HasPrefix(answer.Result.Name, "caf\uFFFD ") {
		t.Errorf("REST: %q %v", whole.Body, err)
	}
	if raw := c.ask(t, token, "POST", page, `{"input":{"how":"latin"},"raw":true}`); raw.Body != said {
		t.Errorf("raw: %q", raw.Body)
	}

	cmd := exec.Command(apptest.Worker(t), "mcp", "--home", k.Dir)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"notes.read-as","args":{"how":"latin"}}}}
`)
	cmd.Stderr = io.Discard
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"status":200`) || !utf8.Valid(out) {
		t.Errorf("MCP: %q %v", out, err)
	}
}
