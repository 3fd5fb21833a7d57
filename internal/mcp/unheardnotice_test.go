package mcp

import (
	"context"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// stuck takes what is written until it is full; then a write ends when the test lets it, as one
// to a pipe that nobody reads ends with the process.
type stuck struct {
	full <-chan struct{}
	goes <-chan struct{}
	said chan<- struct{}
	once *sync.Once
}

func (s stuck) Write(p []byte) (int, error) {
	select {
	case <-s.full:
		s.once.Do(func() { close(s.said) })
		<-s.goes
		return 0, io.ErrClosedPipe
	default:
		return len(p), nil
	}
}

func (stuck) Close() error { return nil }

// A notice that stands behind a write which does not end keeps no server.
func TestANoticeThatIsNotTakenKeepsNoServer(t *testing.T) {
	full, goes, said, asked := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	o := whole()
	o.Call = func(_ context.Context, _ runtime.Caller, c Call) (Answer, error) {
		close(full)
		c.Pending("apr_1", time.Now())
		close(asked)
		return Answer{}, &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: "apr_1"}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.patience, s.after = time.Millisecond, func(time.Duration) <-chan time.Time {
		now := make(chan time.Time, 1)
		now <- time.Time{}
		return now
	}
	in, toServer := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.Run(t.Context(), in, stuck{full, goes, said, &sync.Once{}}) }()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call","arguments":{"action":"a.b"}}}`,
	} {
		if _, err := io.WriteString(toServer, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	<-asked
	<-said
	_ = toServer.Close()
	select {
	case err := <-done:
		if runtime.CodeOf(err) != runtime.CodeTimeout {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the notice keeps it")
	}
	close(goes)
	s.notices.Wait()
}
