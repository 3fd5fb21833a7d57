package app_test

import (
	"bufio"
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// Where a run has no room for another MCP client, that is told so in its own protocol;
// when one has ended, the next one is served.
func TestAnMCPClientTooManyIsToldSo(t *testing.T) {
	t.Parallel()
	const room = 16
	k := apptest.New(t, apptest.Options{})
	path := filepath.Join(t.TempDir(), "m.sock")
	hangUp, err := k.App.MCPForRun(path)
	if err != nil {
		t.Fatal(err)
	}
	defer hangUp()
	type answer struct {
		ID     json.RawMessage
		Result json.RawMessage
		Error  struct {
			Code    int
			Message string
		}
	}
	ask := func(first string) (net.Conn, answer) {
		t.Helper()
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = c.Write([]byte(first + "\n"))
		line, err := bufio.NewReader(c).ReadBytes('\n')
		var a answer
		if json.Unmarshal(line, &a) != nil {
			t.Fatalf("answered %q, %v", line, err)
		}
		return c, a
	}
	const hello = `{"jsonrpc":"2.0","id":"a1","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	var last net.Conn
	for range room {
		c, a := ask(hello)
		if a.Result == nil {
			t.Fatalf("refused: %+v", a.Error)
		}
		last = c
	}
	for range room + 1 { // and however many ask
		c, a := ask(hello)
		if a.Result != nil || a.Error.Code != -32000 || !strings.Contains(a.Error.Message, "16 MCP clients") || string(a.ID) != `"a1"` {
			t.Errorf("one too many: %+v", a)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Error("the connection stays open")
		}
	}
	_ = last.Close()
	apptest.Within(t, soon, "room for another one", func() bool {
		_, a := ask(hello)
		return a.Result != nil
	})
}
