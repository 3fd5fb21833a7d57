package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/kimbap-run/kimbap/runtime"
)

const begin = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// twice are messages that two readers take for two things, what stands twice in each, and
// the id of the answer.
var twice = []struct{ message, name, id string }{
	{`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`, "method", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`, "method", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search"},"params":{"name":"call","arguments":{"action":"a.b"}}}`, "params", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","name":"call","arguments":{"action":"a.b"}}}`, "name", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"},"arguments":{"action":"a.c"}}}`, "arguments", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","\u0061rguments":{"action":"a.b"},"arguments":{"action":"a.c"}}}`, "arguments", "1"},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","_meta":{"progressToken":1,"progressToken":2},"arguments":{"action":"a.b"}}}`, "progressToken", "1"},
	{`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`, "id", "null"},
	{`{"jsonrpc":"1.0","jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`, "jsonrpc", "1"},
}

// counting are options whose calls are counted.
func counting(called *atomic.Int32) Options {
	o := whole()
	o.Call = func(context.Context, runtime.Caller, Call) (Answer, error) {
		called.Add(1)
		return Answer{Status: 200}, nil
	}
	return o
}

type refusal struct {
	ID    json.RawMessage `json:"id"`
	Error struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func (r *refusal) of(t *testing.T, message, name, id string) {
	t.Helper()
	if want := fmt.Sprintf("%q stands twice in one object", name); r.Error.Code != jsonrpc.CodeInvalidRequest || r.Error.Message != want || string(r.ID) != id {
		t.Errorf("%s: %s %+v", message, r.ID, r.Error)
	}
}

// A member of a message that stands twice is refused before anything is done, alone and in a
// batch, and the session goes on.
func TestAMemberOfALineStandsOnce(t *testing.T) {
	var called atomic.Int32
	s, err := New(counting(&called))
	if err != nil {
		t.Fatal(err)
	}
	in, to := io.Pipe()
	from, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), in, out) }()
	answers := bufio.NewReader(from)
	ask := func(line string) (r refusal) {
		t.Helper()
		if _, err := io.WriteString(to, line+"\n"); err != nil {
			t.Fatal(err)
		}
		said, err := answers.ReadString('\n')
		if err == nil {
			err = json.Unmarshal([]byte(strings.Trim(said, "[]\n")), &r)
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", line, err, said)
		}
		return r
	}
	ask(begin)
	for _, c := range twice {
		got := ask(c.message)
		got.of(t, c.message, c.name, c.id)
		got = ask("[" + c.message + "]")
		got.of(t, "in a batch: "+c.message, c.name, c.id)
	}
	if got := ask(`{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":{"method":1},"b":{"method":2}}}`); string(got.ID) != "3" || got.Error.Code != 0 {
		t.Errorf("what stands once in each object: %+v", got)
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	_ = to.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// posting is a server over HTTP: ask sends it a message of a session of a version, "" for none said,
// that is said to be so long. It counts the calls.
func posting(t *testing.T, called *atomic.Int32) (ask func(version, body string, length int64) (status int, said []byte)) {
	t.Helper()
	o := counting(called)
	o.RequireToken = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return func(version, body string, length int64) (status int, said []byte) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp", strings.NewReader(body))
		r.ContentLength = length
		for name, value := range map[string]string{"Authorization": "Bearer x", "Content-Type": "application/json", "Accept": "application/json, text/event-stream"} {
			r.Header.Set(name, value)
		}
		if version != "" {
			r.Header.Set("Mcp-Protocol-Version", version)
		}
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, r)
		return answer.Code, answer.Body.Bytes()
	}
}

// Over HTTP too, whether or not it is said how long the message is.
func TestAMemberOfABodyStandsOnce(t *testing.T) {
	var called atomic.Int32
	ask := posting(t, &called)
	for _, c := range twice {
		for _, body := range []string{c.message, " [" + c.message + "]"} {
			for _, length := range []int64{int64(len(body)), -1} {
				var got refusal
				status, said := ask("", body, length)
				if err := json.Unmarshal(said, &got); err != nil || status != 400 {
					t.Fatalf("%s: %d %v in %s", body, status, err, said)
				}
				got.of(t, body, c.name, "null")
			}
		}
	}
	if n := called.Load(); n != 0 {
		t.Errorf("%d calls were made", n)
	}
	const once = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`
	if status, said := ask("", once, int64(len(once))); status != 200 || called.Load() != 1 {
		t.Errorf("one that stands once: %d %s", status, said)
	}
}

// A message over HTTP whose answer would have another id than it is refused, and nothing of it is done.
func TestAnIDOverHTTPIsThatOfTheAnswer(t *testing.T) {
	var called atomic.Int32
	ask := posting(t, &called)
	const of = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`
	for id, status := range map[string]int{
		"1.5": 400, "9007199254740993": 400, "1e30": 400, "null": 400, "{}": 400, "9007199254740991": 200, `"x"`: 200, "7.0": 200,
	} {
		called.Store(0)
		one := fmt.Sprintf(of, id)
		bodies := []string{one}
		if status == 400 {
			bodies = append(bodies, "["+one+"]")
		} else {
			bodies = append(bodies, "["+one+","+one+"]")
		}
		for i, body := range bodies {
			want := status
			if i == 1 {
				want = 400
			}
			if got, said := ask("2025-03-26", body, int64(len(body))); got != want || want == 400 && !strings.Contains(string(said), "-32600") {
				t.Errorf("%s: %d %s", body, got, said)
			}
		}
		if n := called.Load(); int(n) != map[int]int{200: 1, 400: 0}[status] {
			t.Errorf("id %s: %d calls were made", id, n)
		}
	}
}
