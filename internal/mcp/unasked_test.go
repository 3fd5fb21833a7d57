package mcp

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client hears no answer to what it has taken back, which some take for a broken server's.
func TestWhatIsTakenBackIsNotAnswered(t *testing.T) {
	o := whole()
	o.Call = func(ctx context.Context, _ runtime.Caller, _ Call) (Answer, error) {
		<-ctx.Done()
		return Answer{}, ctx.Err()
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), in, out) }()
	answers := json.NewDecoder(fromServer)
	say := func(line string) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(id string) {
		t.Helper()
		var got struct{ ID json.RawMessage }
		if err := answers.Decode(&got); err != nil || string(got.ID) != id {
			t.Fatalf("heard %s %v, want %s", got.ID, err, id)
		}
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	hear("0")
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`)
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	hear("2")
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if rest, err := io.Copy(io.Discard, io.MultiReader(answers.Buffered(), fromServer)); err != nil || rest > 1 {
		t.Errorf("%d bytes more, %v", rest, err)
	}
}

// saying is a connection that keeps what is said, with what its client says.
type saying struct {
	given
	said []jsonrpc.Message
}

func (s *saying) Connect(context.Context) (sdk.Connection, error) { return s, nil }

func (s *saying) Write(_ context.Context, m jsonrpc.Message) error {
	s.said = append(s.said, m)
	return nil
}

// A client hears of other tools once its session has begun: before that it knows none.
func TestNothingIsSaidOfOtherToolsBeforeTheSession(t *testing.T) {
	id, err := jsonrpc.MakeID("i")
	if err != nil {
		t.Fatal(err)
	}
	of := &saying{given: given{all: []jsonrpc.Message{
		&jsonrpc.Request{ID: id, Method: "initialize"}, &jsonrpc.Request{Method: "notifications/initialized"},
	}}}
	c, err := bounded{of, newLines(nil, nil)}.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for read, want := range []int{0, 0, 1} {
		if read > 0 {
			if _, err := c.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Write(t.Context(), &jsonrpc.Request{Method: "notifications/tools/list_changed"}); err != nil || len(of.said) != want {
			t.Errorf("after %d messages %d were said, %v", read, len(of.said), err)
		}
	}
}
