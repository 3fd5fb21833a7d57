package app_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// refusing is an upstream that refuses in several ways.
func refusing() servicestest.Options {
	says := func(head, body string) servicestest.Behave {
		return func(c *servicestest.Conn, r *servicestest.Request) bool {
			return c.ReadBody(r) == nil && c.Send("HTTP/1.1 "+head+"\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"+body) && false
		}
	}
	return servicestest.Options{Routes: map[string]servicestest.Behave{
		"/gone":       says("404 Not Found", `{"error":"said by the upstream"}`),
		"/broken":     says("500 Internal Server Error", `{"upstream_status":200}`),
		"/busy":       says("429 Too Many Requests\r\nRetry-After: 3", ""),
		"/forbidden":  says("403 Forbidden\r\nRetry-After: 7", ""),
		"/away":       says("302 Found\r\nLocation: https://elsewhere.test/", ""),
		"/notes/9":    says("409 Conflict", `{"error":"said by the upstream"}`),
		"/pages/gone": says("404 Not Found", `{"error":"said by the upstream"}`),
		"/closed":     says("503 Service Unavailable\r\nRetry-After: 3", ""),
	}}
}

// callJSON is what `kimbap call -o json` says on stderr.
func callJSON(t *testing.T, env []string, args ...string) string {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command(apptest.Worker(t), append([]string{"call", "-o", "json"}, args...)...)
	cmd.Env, cmd.Stderr = env, &said
	if err := cmd.Run(); err == nil {
		t.Errorf("%v went well", args)
	}
	return said.String()
}

// A program learns which status the upstream answered with, by whatever way it asks; and
// that none did, where none did.
func TestTheUpstreamsStatusIsTold(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{Upstream: refusing()})
	serve, session := newAPI(t, k), mcpProcess(t, k)
	token, _ := tokenOf(t, k, app.TokenGrant{})
	far, farEnv := elsewhere(t, k)
	plain := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "KIMBAP_") })
	ways := map[string]func(how string) string{
		"a call here":        func(how string) string { return callJSON(t, plain, "--home", k.Dir, "notes.read-as", "--how", how) },
		"a call at a server": func(how string) string { return callJSON(t, farEnv, append(far, "notes.read-as", "--how", how)...) },
		"REST": func(how string) string {
			got := serve.ask(t, token, "POST", "/v1/actions/notes/read-as:execute", `{"input":{"how":"`+how+`"}}`)
			return `{"error":` + got.Body + `}`
		},
		"MCP": func(how string) string {
			text, _ := json.Marshal(use(t, session, "call", map[string]any{"action": "notes.read-as", "args": map[string]any{"how": how}}))
			return string(text)
		},
	}
	look := func(name string, ask func(string) string) {
		for how, want := range map[string]int{"gone": 404, "broken": 500, "busy": 429, "closed": 503, "silent?": 0} {
			if how == "silent?" {
				how = "a/b" // which is not sent at all
			}
			var got struct {
				Error struct {
					Code   string
					Status *int `json:"upstream_status"`
				}
			}
			text := ask(how)
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
			if status := got.Error.Status; got.Error.Code == "" || (status == nil) != (want == 0) || status != nil && *status != want {
				t.Errorf("%s, %s: %s", name, how, text)
			}
		}
	}
	for name, ask := range ways {
		look(name, ask)
	}
	daemonOf(t, k)
	look("a call through the daemon", ways["a call here"])
	if got := k.Do(t, "GET https://"+apptest.Host+"/gone", ""); got.Status != 404 || got.Body != `{"error":"said by the upstream"}` {
		t.Errorf("a program behind the proxy gets %d %s", got.Status, got.Body)
	}
}
