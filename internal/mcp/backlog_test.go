package mcp

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client that asks on and on and reads nothing is left waiting, not kept in memory; and
// what it asks for goes on once it reads.
func TestAClientThatDoesNotReadIsNotReadFurther(t *testing.T) {
	const each, all = 1 << 20, 4 * maxBacklog >> 20
	toServer, fromServer, done := overPipes(t)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		filling := strings.Repeat("x", each)
		for id := range all {
			if _, err := fmt.Fprintf(toServer, `{"jsonrpc":"2.0","id":%d,"method":"ping","params":{"_meta":{"x":%q}}}`+"\n", id, filling); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-finished:
		t.Errorf("%d MiB were taken, and no answer was read", all)
	case <-time.After(2 * time.Second): // all of it takes half a second
	}
	go func() { _, _ = io.Copy(io.Discard, fromServer) }()
	<-finished
	_ = toServer.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What a client has asked for before it says no more is done and answered.
func TestTheLastRequestsAreAnswered(t *testing.T) {
	o := whole()
	o.Call = func(ctx context.Context, _ runtime.Caller, _ Call) (Answer, error) {
		select {
		case <-ctx.Done():
			t.Error("it was cut off")
		case <-time.After(200 * time.Millisecond):
		}
		return Answer{Status: 200}, nil
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	fromServer, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- s.Run(t.Context(), io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}
`)), out)
	}()
	said, err := io.ReadAll(fromServer)
	for _, want := range []string{`"id":1,"result":`, `"id":2,"result":`, `"id":3,"result":`} {
		if err != nil || !strings.Contains(string(said), want) {
			t.Errorf("%s is not there: %s %v", want, said, err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
