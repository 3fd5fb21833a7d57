package mcp

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
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
