package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// A client that garbles a line is told so, and its session goes on.
func TestALineThatIsNoMessageIsAnswered(t *testing.T) {
	toServer, fromServer, done := overPipes(t)
	answers := json.NewDecoder(fromServer)
	for _, c := range []struct{ line, id, code string }{
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, "1", ""},
		{`{"jsonrpc":"2.0","id":2,"method":`, "null", "-32700"},
		{`not JSON {"id":7}`, "null", "-32700"},
		{`}`, "null", "-32700"},
		{`Content-Length: 120`, "null", "-32700"},
		{`, {"id":7}`, "null", "-32700"},
		{`{"jsonrpc":"2.0","id":1,"method":"pi`, "null", "-32700"},
		{`{"jsonrpc":"2.0","id":1,"method":"pi\`, "null", "-32700"},
		{`{"id":7}}`, "null", "-32700"},
		{strings.Repeat("[", maxMessage-1), "null", "-32700"},
		{`{"jsonrpc":"2.0","id":3,"method":"ping"} {}`, "null", "-32700"},
		{`{"id":4,"method":"ping"}`, "4", "-32600"},
		{`{"id":"five","method":7}`, `"five"`, "-32600"},
		{`5`, "null", "-32600"},
		{`[]`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":1,"id":1.5,"method":"ping","ID":1}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":12345678901234567890,"method":"ping"}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":1e3,"method":"ping"}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":1.5,"result":{}}`, "null", "-32600"},
		{`[{"jsonrpc":"2.0","id":1.5,"method":"ping"}]`, "null", "-32600"},
		{`{"jsonrpc":"2.0","id":-9007199254740991,"method":"ping"}`, "-9007199254740991", ""},
		{`{"jsonrpc":"2.0","id":9007199254740991,"method":"ping"}`, "9007199254740991", ""},
		{`{"jsonrpc":"2.0","id":7.0,"method":"ping"}`, "7", ""},
		{`{"jsonrpc":"2.0","id":"12345678901234567890","method":"ping"}`, `"12345678901234567890"`, ""},
		{`{"jsonrpc":"2.0","id":"","method":"ping"}`, `""`, ""},
		{`[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}]`, "8", "-32600"},
		{`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, "null", "-32600"},
		{`[5]`, "null", "-32600"},
		{`"` + strings.Repeat("x", maxMessage) + `"`, "null", "-32600"},
		{"\r\n\n" + `{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}` + "\n" + `{"jsonrpc":"2.0","id":6,"method":"ping"}`, "6", ""},
	} {
		if _, err := io.WriteString(toServer, c.line+"\n"); err != nil {
			t.Fatalf("after %.80s: %v", c.line, err)
		}
		var got struct {
			ID    json.RawMessage `json:"id"`
			Error struct {
				Code json.Number `json:"code"`
			} `json:"error"`
		}
		if err := answers.Decode(&got); err != nil {
			t.Fatalf("after %.80s: %v", c.line, err)
		}
		if string(got.ID) != c.id || got.Error.Code.String() != c.code {
			t.Errorf("%.80s: got id %s and code %q, want %s and %q", c.line, got.ID, got.Error.Code, c.id, c.code)
		}
	}
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A line that is too long is refused under its id, wherever that stands, so that nobody waits
// for its answer; under none where another answer could be taken for it.
func TestALineThatIsTooLongIsRefusedUnderItsID(t *testing.T) {
	long := `"` + strings.Repeat(`x\"}{[,:"id":9`, 1+maxMessage/15) + `"`
	long = strings.ReplaceAll(long, `"id"`, `\"id\"`)
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"id":8,"a":` + long + `}}`:               "7",
		`{"method":"tools/call","params":{"a":[` + long + `,{"id":8}]},"jsonrpc":"2.0" , "id" : "last" }`: `"last"`,
		`{"id":1,"a":` + long + `,"id":2}`: "null",
		`{"a":` + long + `}`:               "null",
		`{"id":1.5,"a":` + long + `}`:      "null",
		`{"id":{"id":3},"a":` + long + `}`: "null",
		`{"a":"id","id":` + long + `}`:     "null",
		`[{"id":1,"a":` + long + `}]`:      "null",
		`{"id":` + long[:len(long)-1]:      "null",
	} {
		var said strings.Builder
		l := newLines(io.NopCloser(strings.NewReader(line+"\n")), &said)
		if _, err := l.Read(make([]byte, 10)); err != io.EOF {
			t.Errorf("%.40s: %v", line, err)
		}
		var got struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		if err := json.Unmarshal([]byte(said.String()), &got); err != nil || string(got.ID) != want || got.Error.Code != -32600 {
			t.Errorf("%.40s: %s %v, want %s", line, said.String(), err, want)
		}
	}
}

// A batch is answered by a server of the versions that have batches, as one; where it is
// none, each of its requests is refused, and the session goes on.
func TestABatchIsAnswered(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	const two = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]` + "\n"
	const same = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]` + "\n"
	const note = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}`
	const mixed = `[` + note + `,{"jsonrpc":"2.0","id":1,"method":"ping"},` + note + "]\n"
	const ping = `{"jsonrpc":"2.0","id":9,"method":"ping"}` + "\n"
	for _, c := range []struct {
		version, batch string
		want           []string // what the answers begin with
	}{
		{"2025-03-26", two, []string{`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"b","result":{}}]`}},
		{"2025-03-26", mixed, []string{`[{"jsonrpc":"2.0","id":1,"result":{}}]`}},
		{"2025-03-26", `[` + note + `,` + note + "]\n", nil},
		{"2025-03-26", same, []string{`{"error":{"code":-32600,`, `{"error":{"code":-32600,`}},
		{"2025-06-18", two, []string{`{"error":{"code":-32600,"message":"this version of the protocol has no batches`, `{"error":{"code":-32600,`}},
		{"2099-01-01", two, []string{`{"error":{"code":-32600,`, `{"error":{"code":-32600,`}},
	} {
		t.Run(c.version, func(t *testing.T) {
			toServer, fromServer, done := overPipes(t)
			answers := bufio.NewReader(fromServer)
			say := func(line string, want ...string) {
				t.Helper()
				if _, err := io.WriteString(toServer, line); err != nil {
					t.Fatal(err)
				}
				for _, want := range want {
					if got, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(got, want) {
						t.Errorf("%.60s: %v, got %s, want %s", line, err, got, want)
					}
				}
			}
			say(fmt.Sprintf(initialize, c.version), `{"jsonrpc":"2.0","id":0,"result":`)
			say(`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n")
			say(c.batch, c.want...)
			say(ping, `{"jsonrpc":"2.0","id":9,"result":{}}`)
			_ = toServer.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A session without batches gets none by what is said later.
func TestASessionWithoutBatchesGetsNone(t *testing.T) {
	const initialize = `{"jsonrpc":"2.0","id":%d,"method":"initialize","params":{"protocolVersion":"%s","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	for _, later := range []string{
		fmt.Sprintf(initialize, 1, "2025-03-26"),
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-03-26"}}}` + "\n",
	} {
		toServer, fromServer, done := overPipes(t)
		answers := bufio.NewReader(fromServer)
		for _, c := range []struct{ line, want string }{
			{fmt.Sprintf(initialize, 0, "2025-06-18"), `"id":0`},
			{later, `"id":1`},
			{`[{"jsonrpc":"2.0","id":2,"method":"ping"}]` + "\n", "has no batches"},
			{`{"jsonrpc":"2.0","id":3,"method":"ping"}` + "\n", `"id":3,"result"`},
		} {
			if _, err := io.WriteString(toServer, c.line); err != nil {
				t.Fatalf("%s: %v", c.line, err)
			}
			if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, c.want) {
				t.Fatalf("%s: %s %v", c.line, got, err)
			}
		}
		_ = toServer.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// From 2026-07-28 on no message begins a session: the batch itself says that it is none.
func TestABatchOfAVersionWithoutOnesIsRefused(t *testing.T) {
	toServer, fromServer, done := overPipes(t)
	answers := bufio.NewReader(fromServer)
	const one = `{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	if _, err := fmt.Fprintf(toServer, "["+one+","+one+"]\n", 1, 2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, "this version of the protocol has no batches") {
			t.Errorf("%v, got %s", err, got)
		}
	}
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Blanks around a message are no part of it, and the session goes on.
func TestBlanksAroundALineAreNoPartOfIt(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
	toServer, fromServer, done := overPipes(t)
	answers := bufio.NewReader(fromServer)
	for id, line := range []string{ping + " \n", "\t" + ping + "\t\r\n", "\u00a0" + ping + "\n", "\v" + ping + "\u0085\n", "[" + ping + "] \n", ping + " "} {
		if _, err := fmt.Fprintf(toServer, line, id); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(line, "\n") {
			_ = toServer.Close()
		}
		if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, fmt.Sprintf(`"id":%d,"result"`, id)) {
			t.Fatalf("%q: %s %v", line, got, err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
