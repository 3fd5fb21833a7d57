package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client that says no more and does not read keeps no server; one that reads slowly has
// all of its last answers.
func TestAClientThatSaysNoMoreKeepsNoServer(t *testing.T) {
	o := whole()
	o.Call = func(context.Context, runtime.Caller, Call) (Answer, error) {
		return Answer{Status: 200, Value: json.RawMessage(`"` + strings.Repeat("x", 4*piece) + `"`)}, nil
	}
	for name, reads := range map[string]int{"not": 0, "a little": 2, "all": 3} {
		t.Run(name, func(t *testing.T) {
			s, err := New(o)
			if err != nil {
				t.Fatal(err)
			}
			looked, tick := make(chan struct{}, 10), make(chan time.Time)
			s.patience, s.after = time.Millisecond, func(time.Duration) <-chan time.Time {
				looked <- struct{}{}
				return tick
			}
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- s.Run(t.Context(), in, out) }()
			answers := bufio.NewReaderSize(fromServer, 16)
			say := func(line string) {
				t.Helper()
				if _, err := io.WriteString(toServer, line+"\n"); err != nil {
					t.Fatal(err)
				}
			}
			say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
			if _, err := answers.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`)
			if _, err := answers.ReadByte(); err != nil { // the answer is under way
				t.Fatal(err)
			}
			_ = toServer.Close()
			looks := func() {
				t.Helper()
				select {
				case <-looked:
				case <-time.After(10 * time.Second):
					t.Fatal("it does not look whether it is heard")
				}
			}
			for range reads {
				looks()
				if _, err := io.CopyN(io.Discard, answers, piece); err != nil { // into the next piece: the one before counts
					t.Fatal(err)
				}
				tick <- time.Time{}
			}
			looks()
			if reads < 3 {
				tick <- time.Time{}
				if err := <-done; runtime.CodeOf(err) != runtime.CodeTimeout {
					t.Errorf("it ended with %v", err)
				}
				return
			}
			if rest, err := io.Copy(io.Discard, answers); err != nil || rest < piece {
				t.Errorf("%d bytes more, %v", rest, err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
