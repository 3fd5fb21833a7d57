package app_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// An MCP client that stays is told when the services are others, over stdin and stdout and
// on the socket of a run: what its tools can do at worst may be another thing.
func TestMCPClientsAreToldOfOtherServices(t *testing.T) {
	t.Parallel()
	head, _, _ := strings.Cut(apptest.Notes, "  read-as:") // and what only reads
	for name, over := range map[string]func(t *testing.T, k *apptest.Kimbap) sdk.Transport{
		"stdio": func(t *testing.T, k *apptest.Kimbap) sdk.Transport { return mcpCommand(t, k) },
		"run": func(t *testing.T, k *apptest.Kimbap) sdk.Transport {
			path := filepath.Join(t.TempDir(), "m.sock")
			hangUp, err := k.App.MCPForRun(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(hangUp)
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			return &sdk.IOTransport{Reader: conn, Writer: conn}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := apptest.New(t, apptest.Options{})
			k.Write(t, "services/notes.yaml", head)
			apptest.Within(t, soon, "the reload here", func() bool { return len(k.App.Services().Services()[0].Actions) == 1 })
			told := make(chan struct{}, 8)
			session := mcpConnectAs(t, "2025-06-18", &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { told <- struct{}{} },
			}, over(t, k))
			if !mcpReadOnly(t, session) {
				t.Fatal("call is not read-only at first")
			}
			k.Write(t, "services/notes.yaml", apptest.Notes)
			select {
			case <-told:
			case <-time.After(soon):
				t.Fatal("not told")
			}
			if mcpReadOnly(t, session) {
				t.Error("call is still read-only")
			}
			k.Write(t, "policy.yaml", "version: 1\nrules: [{name: closed, match: {service: notes}, then: deny}]\n")
			apptest.Within(t, soon, "the new policy", func() bool {
				got := use(t, session, "call", map[string]any{"action": "notes.get-note", "args": map[string]any{"id": 7}})
				return strings.Contains(got.Error.Rule, "closed")
			})
			if len(told) > 0 {
				t.Error("told of tools when only the policy is another")
			}
		})
	}
}

// mcpReadOnly reports whether call is listed as what changes nothing.
func mcpReadOnly(t *testing.T, session *sdk.ClientSession) bool {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "call" {
			return tool.Annotations.ReadOnlyHint
		}
	}
	t.Fatal("there is no call")
	return false
}
