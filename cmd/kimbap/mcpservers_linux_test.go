package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// serversOfOthers is that part of docs/mcp.md, and settings and the service file in it.
func serversOfOthers(t *testing.T) (servers [][]string, service string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/mcp.md")
	check(t, err)
	_, part, _ := strings.Cut(string(text), `<a id="servers-of-others">`)
	for _, block := range regexp.MustCompile("(?s)```(json|toml|yaml)\n(.*?)```").FindAllStringSubmatch(part, -1) {
		type server struct {
			Command string
			Args    []string
		}
		var one server
		switch block[1] {
		case "yaml":
			service = block[2]
			continue
		case "json":
			var file struct{ MCPServers map[string]server }
			check(t, json.Unmarshal([]byte(block[2]), &file))
			one = file.MCPServers["github"]
		case "toml":
			found := regexp.MustCompile(`command = (".*")\nargs = (\[.*\])`).FindStringSubmatch(block[2])
			check(t, json.Unmarshal([]byte(found[1]), &one.Command))
			check(t, json.Unmarshal([]byte(found[2]), &one.Args))
		}
		servers = append(servers, append([]string{one.Command}, one.Args...))
	}
	return servers, service
}

// otherServer stands in for npx and the MCP server that it starts: it gets one message,
// asks the API with the key that it finds, and answers.
const otherServer = `#!/bin/sh
[ "$*" = "-y @modelcontextprotocol/server-github" ] || exit 9
read -r message
curl -sS -H "Authorization: Bearer $GITHUB_PERSONAL_ACCESS_TOKEN" https://api.github.com/user
`

// The settings in docs/mcp.md start a server as clients start one, with PATH and HOME alone and
// in the root folder: nothing but the server's own words is on its stdout, and its request has
// the key.
func TestMCPServersOfOthers(t *testing.T) {
	needProgram(t, installed("curl"))
	w := newWorld(t)
	const answer = `{"jsonrpc":"2.0","id":1,"result":{}}`
	api := w.serve(t, "api.github.com", demands("Authorization", "Bearer "+keys["github"], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(answer))
	})))
	h := w.newHome(t)
	h.kimbap(t, keys["github"]+"\n", "link", "github", "--no-check")
	bin := filepath.Join(h.user, "bin")
	check(t, os.Mkdir(bin, 0o755))
	check(t, os.WriteFile(filepath.Join(bin, "npx"), []byte(otherServer), 0o755))
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + h.user, "SSL_CERT_FILE=" + w.roots}
	servers, _ := serversOfOthers(t)
	if len(servers) != 2 {
		t.Fatalf("%d settings found: %q", len(servers), servers)
	}
	for _, server := range servers {
		r := h.exec(t, env, "{}\n", append([]string{"-C", "/"}, server...)...)
		requests, _ := api.take()
		if r.code != 0 || r.stdout != answer || len(requests) != 1 {
			t.Errorf("%q ends with %d after %d requests\n%s\n%s", server, r.code, len(requests), r.stdout, r.stderr)
		}
		said := h.kimbap(t, "", "audit", "search", "--kind", "intent", "--limit", "1").stdout
		if !strings.Contains(said, "github-mcp") || !strings.Contains(said, "github.get-user") {
			t.Errorf("the trail has\n%s", said)
		}
	}
	h.holdsNoKey(t, keys["github"])
}

// The service file in docs/mcp.md tells the tools of a server apart, and lets no batch hide one.
func TestToolsOfAnMCPServerBehindAURL(t *testing.T) {
	needProgram(t, installed("curl"))
	w := newWorld(t)
	const key = "shop-canary8Wd3kQz6"
	shop := w.serve(t, "mcp.shop.example", demands("Authorization", "Bearer "+key, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("the shop"))
	})))
	h := w.newHome(t)
	_, service := serversOfOthers(t)
	file := filepath.Join(h.user, "shop.yaml")
	h.write(t, file, []byte(service))
	h.kimbap(t, "", "service", "validate", file)
	h.kimbap(t, "", "service", "install", file, "--yes")
	h.kimbap(t, key+"\n", "link", "shop-mcp", "--no-check")
	const list, orders, refund = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"list_orders"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"refund"}}`
	for _, c := range []struct{ message, want string }{
		{list, "the shop"}, {orders, "the shop"}, {refund, `"action":"shop-mcp.any-tool"`},
		{"[" + refund + "]", `"action":"shop-mcp.any-tool"`}, {"[" + list + "," + refund + "]", `"reason":"unmatched"`},
		{strings.Replace(refund, `"method"`, `"method":"tools/list","method"`, 1), `"reason":"duplicate_key"`},
		{strings.Replace(refund, `"name"`, `"name":"list_orders","name"`, 1), `"reason":"duplicate_key"`},
	} {
		r := h.run(t, "sh", "-c", `curl -sS -H "Authorization: Bearer $SHOP_MCP_TOKEN" -H 'Content-Type: application/json' -d "$0" https://mcp.shop.example/mcp`, c.message)
		requests, _ := shop.take()
		if !strings.Contains(r.stdout, c.want) || (len(requests) == 1) != (c.want == "the shop") {
			t.Errorf("%s: %d requests, and %s", c.message, len(requests), r.stdout)
		}
	}
	h.holdsNoKey(t, key)
}
