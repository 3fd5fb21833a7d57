package app_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

// mcpToken makes a token of an agent.
func mcpToken(t *testing.T, person *app.App, agent string, scopes ...string) (token, id string) {
	t.Helper()
	secret, info, err := person.CreateToken(t.Context(), app.TokenGrant{Agent: agent, Scopes: scopes, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal(), info.ID
}

// What waits for a person is an answer that says how to go on. The answer that a
// client gives to the notice decides nothing, and the action happens once.
func TestMCPApprovalsAreGivenElsewhere(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	var notices atomic.Int32
	session := mcpConnectAs(t, "2025-06-18", &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			if strings.Contains(r.Params.Message, "approve accept") {
				t.Error("the notice tells the command that accepts")
			}
			notices.Add(1)
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
		},
	}, mcpCommand(t, k))
	asked := map[string]any{"action": "notes.delete-note", "args": map[string]any{"id": 7}}
	got := use(t, session, "call", asked)
	id := got.Pending.ApprovalID
	if got.Failed || id == "" || got.Pending.ExpiresAt == "" || !strings.Contains(got.Pending.Next, id) || !strings.Contains(got.Text, id) || strings.Contains(got.Text, "approve accept") {
		t.Fatalf("%+v", got)
	}
	apptest.Eventually(t, "the notice", func() bool { return notices.Load() == 1 })
	if again := use(t, session, "resume", map[string]any{"id": id, "wait": 0.2}); again.Failed || again.Pending.ApprovalID != id {
		t.Errorf("%+v", again)
	}
	if n := len(k.Up.Requests()); n != 0 {
		t.Fatalf("%d requests left before a person said yes", n)
	}
	waited := make(chan toolAnswer, 1)
	go func() { waited <- use(t, session, "resume", map[string]any{"id": id, "wait": 60}) }()
	if _, err := person.Accept(t.Context(), id, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if done := <-waited; done.Failed || done.Status != 200 {
		t.Errorf("%+v", done)
	}
	if twice := use(t, session, "resume", map[string]any{"id": id}); !twice.Failed || twice.Error.Code != "invalid_input" || twice.Error.Reason != "executed_already" {
		t.Errorf("%+v", twice)
	}
	if n := len(k.Up.Requests()); n != 1 {
		t.Errorf("%d requests left", n)
	}
	second := use(t, session, "call", map[string]any{"action": "notes.delete-note", "args": map[string]any{"id": 8}})
	if _, err := person.Reject(t.Context(), second.Pending.ApprovalID, "no"); err != nil {
		t.Fatal(err)
	}
	if no := use(t, session, "resume", map[string]any{"id": second.Pending.ApprovalID}); !no.Failed || no.Error.Code != "approval_rejected" {
		t.Errorf("%+v", no)
	}
}

// A script that waits for a person is gone on with by its id.
func TestMCPScriptsAreResumed(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	session := mcpProcess(t, k)
	got := use(t, session, "execute", map[string]any{"code": `await tools.notes.deleteNote({id: 7}); return "gone"`})
	if got.Failed || got.Paused == nil || !strings.Contains(got.Text, got.Paused.ExecutionID) {
		t.Fatalf("%+v", got)
	}
	if _, err := person.Accept(t.Context(), got.Paused.ApprovalID, app.Yes{}); err != nil {
		t.Fatal(err)
	}
	if end := use(t, session, "resume", map[string]any{"id": got.Paused.ExecutionID, "wait": 60}); !end.Success || string(end.Value) != `"gone"` {
		t.Errorf("%+v", end)
	}
	for code, kind := range map[string]string{`import "x"`: "rejected", `throw new Error("by itself")`: "exception"} {
		if bad := use(t, session, "execute", map[string]any{"code": code}); !bad.Failed || !strings.HasPrefix(bad.Text, kind) {
			t.Errorf("%s: %+v", code, bad)
		}
	}
}

// Over HTTP two clients at the same time are two callers: each finds, sees and does
// what its own token may, and hints say how much that is.
func TestMCPClientsAreKeptApart(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	person := k.Open(t, "")
	url := mcpServer(t, k)
	reader, readerID := mcpToken(t, person, "reader", "notes.get-*")
	writer, _ := mcpToken(t, person, "writer", "*")
	clients := map[string]*sdk.ClientSession{"reader": mcpOver(t, url, reader), "writer": mcpOver(t, url, writer)}
	var wg sync.WaitGroup
	for name, session := range clients {
		for range 8 {
			wg.Go(func() {
				found := use(t, session, "search", map[string]any{})
				made := use(t, session, "call", map[string]any{"action": "notes.create-note", "args": map[string]any{"text": name}})
				about := use(t, session, "describe", map[string]any{"name": "notes.create-note"})
				if all := len(found.Items) == 5; all != (name == "writer") || made.Failed == all || about.Failed == all {
					t.Errorf("%s: %d found, %+v, %+v", name, len(found.Items), made, about)
				}
			})
		}
	}
	wg.Wait()
	denied := use(t, clients["reader"], "call", map[string]any{"action": "notes.create-note", "args": map[string]any{"text": "x"}})
	if denied.Error.Code != "forbidden" || denied.Error.Reason != "scope" || denied.Error.Hint == "" || denied.Error.RequestID == "" || !strings.Contains(denied.Text, "hint: ") {
		t.Errorf("%+v", denied)
	}
	if unknown := use(t, clients["reader"], "call", map[string]any{"action": "notes.creat-note"}); unknown.Error.Code != "unknown_action" || strings.Contains(unknown.Text, "create-note") {
		t.Errorf("%+v", unknown)
	}
	for name, session := range clients {
		list, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			looks, quiet := tool.Name == "search" || tool.Name == "describe", name == "reader"
			if a := tool.Annotations; a == nil || a.ReadOnlyHint != (looks || quiet) || *a.DestructiveHint == (looks || quiet) || *a.OpenWorldHint == looks || a.IdempotentHint != (looks || quiet) {
				t.Errorf("%s sees %s as %+v", name, tool.Name, a)
			}
		}
		if len(list.Tools) != 5 {
			t.Errorf("%d tools", len(list.Tools))
		}
	}
	agents := map[string]int{}
	for _, r := range k.Records(t) {
		if r.Surface == "mcp" && r.Kind == "intent" {
			agents[r.Principal+" "+r.Action]++
		}
	}
	if len(agents) != 1 {
		t.Errorf("recorded: %v", agents)
	}
	if gone, err := person.RevokeToken(t.Context(), readerID); err != nil || !gone {
		t.Fatal(gone, err)
	}
	apptest.Eventually(t, "the revoked token is refused", func() bool {
		_, err := clients["reader"].CallTool(t.Context(), &sdk.CallToolParams{Name: "search"})
		return err != nil
	})
}

// Nobody without a token is served over HTTP, no page of a browser, and nobody who
// was led here by another name.
func TestMCPOverHTTPIsGuarded(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	token, _ := mcpToken(t, k.Open(t, ""), "bot", "*")
	url := mcpServer(t, k)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	const ask = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"notes.get-note","args":{"id":1}}}}`
	for _, c := range []struct {
		header, value, token, body string
		status                     int
	}{
		{"", "", token, ask, 200},
		{"", "", "", ask, 401},
		{"", "", "kmb_nobody", ask, 401},
		{"Origin", "https://evil.example", token, ask, 403},
		{"Origin", "null", token, ask, 403},
		{"Sec-Fetch-Site", "cross-site", token, ask, 403},
		{"Host", "evil.example", token, ask, 421},
		{"Host", "127.0.0.1.evil.example:80", token, ask, 421},
		{"Host", "192.0.2.1", token, ask, 421},
		{"Host", "localhost:1", token, ask, 200},
		{"Content-Type", "text/plain", token, ask, 415},
		{"", "", token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + strings.Repeat("x", 5<<20) + `"}}`, 413},
	} {
		r, err := http.NewRequest("POST", url, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		if c.header != "" {
			r.Header.Set(c.header, c.value)
		}
		if c.header == "Host" {
			r.Host = c.value
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != c.status || c.status == 200 && !strings.Contains(string(text), `"status":200`) {
			t.Errorf("%s: %s: %d %.300s, want %d", c.header, c.value, res.StatusCode, text, c.status)
		}
	}
	if n := len(k.Up.Requests()); n != 2 {
		t.Errorf("%d requests left", n)
	}
	b := k.Open(t, "mcp")
	if err := b.ServeMCP(t.Context(), app.MCPOptions{Listen: "0.0.0.0:0", Version: "1"}); runtime.CodeOf(err) != runtime.CodeInvalidInput {
		t.Errorf("a listener for everybody: %v", err)
	}
}

// The stored credential is given back by the upstream in every way it knows, and is
// in no result of a tool; nor is the caller's token in what is kept.
func TestMCPResultsHoldNoCredential(t *testing.T) {
	t.Parallel()
	const canary = `cAn4ry/"stored"+5e0d9b7c=%z`
	k := apptest.New(t, apptest.Options{Unlinked: true})
	person := k.Open(t, "")
	if _, _, err := person.SetSecret(t.Context(), apptest.Secret, runtime.NewSecret(canary), app.SecretOptions{}); err != nil {
		t.Fatal(err)
	}
	token, _ := mcpToken(t, person, "canary", "*")
	session := mcpProcess(t, k, "KIMBAP_TOKEN="+token)
	var said strings.Builder
	for _, how := range []string{"reflect", "reflect?as=base64", "401-once", "429", "garbage", "cut", "trailers", "large-head", "reflect"} {
		result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "call", Arguments: map[string]any{"action": "notes.read-as", "args": map[string]any{"how": how}}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := result.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		said.Write(text)
	}
	if k.Up.Last(t).Header.Get("Authorization") != "Bearer "+canary {
		t.Fatal("the credential did not arrive: the scenario did not happen")
	}
	places := map[string]string{"the results": said.String(), "the log": k.Log.String()}
	files, err := filepath.Glob(filepath.Join(k.Dir, "*", "*", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		places[file] = string(data)
	}
	for place, text := range places {
		for name, value := range map[string]string{"the credential": canary, "the token": token} {
			if form, found := leaked(text, value); found {
				t.Errorf("%s is in %s as %s", name, place, form)
			}
		}
	}
}

// A policy that changes while a client is served holds for its next call.
func TestMCPFollowsThePolicy(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	session := mcpProcess(t, k)
	ask := map[string]any{"action": "notes.get-note", "args": map[string]any{"id": 7}}
	if got := use(t, session, "call", ask); got.Failed {
		t.Fatalf("%+v", got)
	}
	k.Write(t, "policy.yaml", "version: 1\nrules: [{name: none, match: {action: '*', surface: mcp}, then: deny}]\n")
	apptest.Eventually(t, "the new policy", func() bool { return use(t, session, "call", ask).Error.Rule == "none" })
}

// The process ends, and ends well, when it is told to while its client stays, and
// when its client goes.
func TestMCPEndsWithItsClientOrBefore(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	for _, signal := range []bool{true, false} {
		transport := mcpCommand(t, k)
		session := mcpConnect(t, nil, transport)
		use(t, session, "search", map[string]any{})
		if signal {
			if err := transport.Command.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = session.Wait()
		}
		_ = session.Close()
		if state := transport.Command.ProcessState; state == nil || !state.Success() {
			t.Errorf("signal %v: it ended with %v", signal, state)
		}
	}
	if n := strings.Count(recordLines(k.Records(t)), `"mcp.stop"`); n != 2 {
		t.Errorf("%d stops recorded", n)
	}
}

func recordLines(records []apptest.Record) string {
	var b strings.Builder
	for _, r := range records {
		b.WriteString(r.Line + "\n")
	}
	return b.String()
}

// What a model writes wrong is said to it, and does nothing.
func TestMCPRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	session := mcpProcess(t, k)
	for _, c := range []struct {
		tool string
		args map[string]any
		code string
	}{
		{"call", map[string]any{}, "invalid_input"},
		{"call", map[string]any{"action": "notes.get-note", "args": map[string]any{"id": "seven"}}, "invalid_input"},
		{"call", map[string]any{"action": "notes.get-note", "args": []any{7}}, "invalid_input"},
		{"call", map[string]any{"action": "notes.get-note", "other": 1}, "invalid_input"},
		{"call", map[string]any{"action": "notes.get-note", "wait": 1e9}, "invalid_input"},
		{"call", map[string]any{"action": "notes.get-note", "wait": -1}, "invalid_input"},
		{"call", map[string]any{"action": "notes.gett-note"}, "unknown_action"},
		{"call", map[string]any{"action": "net.pass"}, "unknown_action"},
		{"describe", map[string]any{"name": "nothing"}, "unknown_action"},
		{"execute", map[string]any{"code": ""}, "invalid_input"},
		{"resume", map[string]any{"id": "apr_none"}, "invalid_input"},
		{"resume", map[string]any{"id": "exe_none"}, "invalid_input"},
		{"resume", map[string]any{"id": "apr_none", "approve": true}, "invalid_input"},
	} {
		if got := use(t, session, c.tool, c.args); !got.Failed || got.Error.Code != c.code || got.Error.Hint == "" && c.tool != "resume" {
			t.Errorf("%s %v: %+v", c.tool, c.args, got)
		}
	}
	if n := len(k.Up.Requests()); n > 0 {
		t.Errorf("%d requests left", n)
	}
}

// Idle connections of nobody keep no caller out, of the API or of MCP.
func TestConnectionsOfNobodyKeepNobodyOut(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	token, _ := mcpToken(t, k.Open(t, ""), "agent", "*")
	api, over := newAPI(t, k), mcpServer(t, k)
	for range 256 {
		for _, at := range []string{api.base, over} {
			u, err := url.Parse(at)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := net.Dial("tcp", u.Host)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1024)); err != nil {
				t.Fatal(err)
			}
		}
	}
	api.client.Timeout = 20 * time.Second // they are idle for a minute
	if got := api.ask(t, token, "GET", "/v1/services", ""); got.Status != 200 {
		t.Errorf("the API: %d", got.Status)
	}
	mcp := &http.Client{Transport: bearing{token, api.client.Transport.(*http.Transport)}, Timeout: 20 * time.Second}
	answer, err := mcp.Get(over)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}
