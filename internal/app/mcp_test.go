package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// mcpProcess starts a real `kimbap mcp` over a home and returns a client of its
// stdin and stdout. Env is in the form NAME=value.
func mcpProcess(t *testing.T, k *apptest.Kimbap, env ...string) *sdk.ClientSession {
	t.Helper()
	return mcpConnect(t, nil, mcpCommand(t, k, env...))
}

func mcpCommand(t *testing.T, k *apptest.Kimbap, env ...string) *sdk.CommandTransport {
	t.Helper()
	cmd := exec.Command(apptest.Worker(t), "mcp", "--home", k.Dir)
	cmd.Env = append(os.Environ(), env...)
	said := &strings.Builder{}
	cmd.Stderr = said
	t.Cleanup(func() {
		if t.Failed() && said.Len() > 0 {
			t.Logf("kimbap mcp said:\n%s", said)
		}
	})
	return &sdk.CommandTransport{Command: cmd}
}

// mcpServer starts a real `kimbap mcp --listen` and returns its URL.
func mcpServer(t *testing.T, k *apptest.Kimbap) string {
	t.Helper()
	cmd := exec.Command(apptest.Worker(t), "mcp", "--home", k.Dir, "--listen", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("kimbap mcp --listen: %v", err)
		}
	})
	line := make([]byte, 200)
	n, err := said.Read(line)
	url, is := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "listening on ")
	if err != nil || !is {
		t.Fatalf("%q %v", line[:n], err)
	}
	return url
}

// bearing adds a token to every request.
type bearing struct {
	token string
	*http.Transport
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.Transport.RoundTrip(r)
}

// mcpOver is a client of a server over HTTP.
func mcpOver(t *testing.T, url, token string) *sdk.ClientSession {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return mcpConnect(t, nil, &sdk.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: bearing{token, transport}}, DisableStandaloneSSE: true,
	})
}

func mcpConnect(t *testing.T, o *sdk.ClientOptions, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	return mcpConnectAs(t, "", o, transport)
}

// mcpConnectAs connects with a version of the protocol; "": the newest.
func mcpConnectAs(t *testing.T, version string, o *sdk.ClientOptions, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(ctx, transport, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// toolAnswer is what a tool answered.
type toolAnswer struct {
	Failed  bool
	Text    string
	Status  int
	Result  json.RawMessage
	Pending struct {
		ApprovalID, Next, Decide, ExpiresAt string
	}
	Paused *struct{ ExecutionID, ApprovalID string }
	Error  struct {
		Code, Reason, Detail, Hint, Rule string
		RequestID                        string `json:"request_id"`
		Upstream                         *int   `json:"upstream_status,omitempty"`
	}
	Items []struct {
		Name     string
		Risk     string
		Approval bool
	}
	InputSchema map[string]any
	Annotations map[string]bool
	Success     bool
	Value       json.RawMessage
}

func use(t *testing.T, session *sdk.ClientSession, tool string, args map[string]any) toolAnswer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := session.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	text, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	var out toolAnswer
	if err := json.Unmarshal(text, &out); err != nil && tool != "execute" {
		t.Fatalf("%v: %s", err, text)
	}
	out.Failed = result.IsError
	for _, c := range result.Content {
		if text, is := c.(*sdk.TextContent); is {
			out.Text += text.Text
		}
	}
	return out
}

// The five tools do their work over stdin and stdout of the real program, and each
// call is a request like any other.
func TestMCPToolsGoThroughThePipeline(t *testing.T) {
	t.Parallel()
	k := apptest.New(t, apptest.Options{})
	session := mcpProcess(t, k)
	if found := use(t, session, "search", map[string]any{"query": "delete"}); len(found.Items) != 1 || found.Items[0].Name != "notes.delete-note" || !found.Items[0].Approval {
		t.Errorf("%+v", found)
	}
	about := use(t, session, "describe", map[string]any{"name": "tools.notes.deleteNote"})
	if about.Annotations["readOnlyHint"] || !about.Annotations["destructiveHint"] || !about.Annotations["openWorldHint"] || about.InputSchema["required"] == nil {
		t.Errorf("%+v", about)
	}
	mark := k.Mark(t)
	got := use(t, session, "call", map[string]any{"action": "notes.get-note", "args": map[string]any{"id": 7}})
	if got.Failed || got.Status != 200 || len(got.Result) == 0 || got.Text == "" {
		t.Errorf("%+v", got)
	}
	if r := k.Up.Last(t); r.Header.Get("Authorization") != "Bearer "+apptest.Key || !strings.HasPrefix(string(r.Head), "GET /notes/7 ") {
		t.Errorf("%s", r.Head)
	}
	records := k.Await(t, mark, 2)
	if records[0].Surface != "mcp" || records[0].Short() != "intent allow notes.get-note" || records[1].Short() != "outcome allow notes.get-note ok -" {
		t.Errorf("%s | %s", records[0].Line, records[1].Line)
	}
	script := use(t, session, "execute", map[string]any{"code": `return [1, 2].length + (await tools.notes.getNote({id: 1}) ? 1 : 0)`})
	if !script.Success || string(script.Value) != "3" {
		t.Errorf("%+v", script)
	}
}
