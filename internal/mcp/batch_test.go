package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/kimbap-run/kimbap/runtime"
)

// The answers of a batch are kept until the last one is there. There are not so many of
// them that one line has hundreds of MiB kept.
func TestABatchIsBounded(t *testing.T) {
	toServer, fromServer, done := overPipes(t)
	answers := json.NewDecoder(fromServer)
	ask := func(line string, answer any) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if err := answers.Decode(answer); err != nil {
			t.Fatalf("%.60s: %v", line, err)
		}
	}
	batch := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	var begun any
	ask(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, &begun)
	var all []any
	if ask(batch(maxBatch), &all); len(all) != maxBatch {
		t.Errorf("%d of a batch are answered", len(all))
	}
	var one struct {
		ID    int
		Error struct{ Code int }
	}
	ask(batch(maxBatch+1), &one)
	for i := range maxBatch {
		if one.ID != i || one.Error.Code != jsonrpc.CodeInvalidRequest {
			t.Fatalf("%d of a longer one: %+v", i, one)
		}
		if err := answers.Decode(&one); err != nil {
			t.Fatal(err)
		}
	}
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// collecting is a connection that takes answers at once, as the SDK does those of a batch.
type collecting struct{ unread }

// The answers of a batch count until all of it is answered, since the SDK keeps them; what
// comes together is taken as a whole, however much that is.
func TestTheAnswersOfABatchCountUntilItIsAnswered(t *testing.T) {
	_, of := apart([]byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"method":"b"},{"jsonrpc":"2.0","id":2,"method":"b"},{"jsonrpc":"2.0","id":3,"method":"b"}]`))
	_, one := apart([]byte(`{"jsonrpc":"2.0","id":4,"method":"b"}`))
	came := newLines(nil, nil)
	came.together.add(of[1:]...) // unread has no notifications
	came.together.add(one...)
	c, err := bounded{&collecting{unread{ids: []float64{1, 2, 3, 4}}}, came}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := c.(*backlog)
	read := func() jsonrpc.ID {
		message, err := c.Read(t.Context())
		if err != nil {
			t.Error(err)
		}
		return message.(*jsonrpc.Request).ID
	}
	answer := func(id jsonrpc.ID, length, want int) {
		t.Helper()
		if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Result: make([]byte, length)}); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.bytes != want {
			t.Errorf("%d bytes count, want %d", b.bytes, want)
		}
	}
	first := read()
	answer(first, maxBacklog, maxBacklog+perRequest)
	second, third := read(), read()
	answer(second, 0, maxBacklog+3*perRequest)
	if b.batch.left != 1 {
		t.Errorf("%d are not answered", b.batch.left)
	}
	alone := make(chan jsonrpc.ID)
	go func() { alone <- read() }()
	select {
	case <-alone:
		t.Fatal("more is read, and all answers of the batch are kept")
	case <-time.After(100 * time.Millisecond):
	}
	if err := c.Write(t.Context(), &jsonrpc.Response{ID: third}); err != nil {
		t.Error(err)
	}
	answer(<-alone, 0, 0)
}

// A batch that has the id of a request that is not answered yet is refused, and the session
// goes on with what runs.
func TestABatchThatRepeatsAnOpenIDIsRefused(t *testing.T) {
	o := whole()
	began, leave := make(chan struct{}), make(chan struct{})
	o.Call = func(context.Context, runtime.Caller, Call) (Answer, error) {
		began <- struct{}{}
		<-leave
		return Answer{Status: 200}, nil
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	from, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), in, out) }()
	defer time.AfterFunc(10*time.Second, func() { _ = out.Close() }).Stop() // nothing is said any more
	answers := bufio.NewReader(from)
	say := func(line string, want ...string) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
		for _, want := range want {
			if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, want) {
				t.Fatalf("%.60s: got %s, %v, want %s", line, got, err, want)
			}
		}
	}
	const do = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`
	say(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, `"id":"i"`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say("[" + fmt.Sprintf(do, "1") + "]")
	<-began
	say(fmt.Sprintf(do, `"two"`))
	<-began
	say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) // passed over
	say(`[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":1.0,"method":"ping"}]`,
		`"code":-32600,"message":"a message of this batch has the id of one that is not answered yet"},"id":7`, `"id":null`)
	say(`[{"jsonrpc":"2.0","id":"two","method":"ping"}]`, `"id":null`)
	say(`[{"jsonrpc":"2.0","id":7,"method":"ping"}]`, `[{"jsonrpc":"2.0","id":7,"result":{}}]`)
	leave <- struct{}{}
	leave <- struct{}{}
	for range 2 {
		if got, err := answers.ReadString('\n'); err != nil || !strings.Contains(got, `"result":{"content"`) {
			t.Errorf("%s %v", got, err)
		}
	}
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An id is free once all that has it is answered.
func TestAnAnsweredIDIsFree(t *testing.T) {
	id, err := jsonrpc.MakeID("one")
	if err != nil {
		t.Fatal(err)
	}
	u, ids := newLines(nil, nil).open, map[jsonrpc.ID]bool{id: true}
	if !u.add(ids, true) || u.add(ids, true) || !u.add(ids, false) {
		t.Error("it is taken")
	}
	u.drop(id)
	if u.add(ids, true) || !u.has(json.RawMessage(`"one"`)) {
		t.Error("one of two is not answered yet")
	}
	u.drop(id)
	if u.has(json.RawMessage(`"one"`)) || !u.add(ids, true) {
		t.Error("it is not free")
	}
}
