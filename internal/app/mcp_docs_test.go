package app_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// What docs/mcp.md tells clients to start is started as they would, and answers.
func TestMCPSetUpLinesStartAServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	k := apptest.New(t, apptest.Options{})
	token, _ := mcpToken(t, k.Open(t, ""), "docs", "*")
	own, _, found := strings.Cut(string(text), `<a id="servers-of-others">`) // those are tested where there is a kimbap run
	if !found {
		t.Fatal("docs/mcp.md has no part about servers of others")
	}
	said := strings.ReplaceAll(own, "kmb_…", token)
	commands := settingsOf(t, said)
	for _, line := range regexp.MustCompile(`(?m)^(?:claude|codex|gemini) mcp add .*(?: -- | kimbap )(kimbap .*)$`).FindAllStringSubmatch(said, -1) {
		commands = append(commands, started{Command: "kimbap", Args: strings.Fields(line[1])[1:]})
	}
	if len(commands) != 8 {
		t.Fatalf("%d commands found: %+v", len(commands), commands)
	}
	for _, c := range commands {
		if c.Command != "kimbap" {
			t.Fatalf("%+v", c)
		}
		cmd := exec.Command(apptest.Worker(t), c.Args...)
		cmd.Env = append(os.Environ(), "KIMBAP_HOME="+k.Dir)
		for name, value := range c.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		session := mcpConnect(t, nil, &sdk.CommandTransport{Command: cmd})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		list, err := session.ListTools(ctx, nil)
		cancel()
		if err != nil || len(list.Tools) != 5 {
			t.Errorf("%+v: %+v %v", c, list, err)
		}
		_ = session.Close()
	}
}

// started is how a client's settings name a server.
type started struct {
	Command string
	Args    []string
	Env     map[string]string
}

// settingsOf finds the servers in a document's settings: JSON, also on a command
// line, and TOML, of which the two lines of a server are read.
func settingsOf(t *testing.T, text string) []started {
	t.Helper()
	var out []started
	for _, found := range regexp.MustCompile(`(?m)(?:^|')(\{"(?:mcpServers|servers|name)".*\})'?$`).FindAllStringSubmatch(text, -1) {
		var file struct {
			started
			MCPServers, Servers map[string]started
		}
		if err := json.Unmarshal([]byte(found[1]), &file); err != nil {
			t.Fatalf("%s: %v", found[1], err)
		}
		for _, servers := range []map[string]started{file.MCPServers, file.Servers} {
			for _, one := range servers {
				out = append(out, one)
			}
		}
		if file.Command != "" {
			out = append(out, file.started)
		}
	}
	for _, found := range regexp.MustCompile(`command = (".*")\nargs = (\[.*\])`).FindAllStringSubmatch(text, -1) {
		var one started
		if json.Unmarshal([]byte(found[1]), &one.Command) != nil || json.Unmarshal([]byte(found[2]), &one.Args) != nil {
			t.Fatal(found[0])
		}
		out = append(out, one)
	}
	return out
}
