package mcp

import (
	"context"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/kimbap-run/kimbap/runtime"
)

// A client's user is told of a question when it is asked, by whatever tool, and not when that
// has waited.
func TestANoticeComesWhileTheToolWaits(t *testing.T) {
	shown := make(chan string)
	wait := func(ask func(string, time.Time), id string) {
		ask(id, time.Now())
		if message := <-shown; !strings.Contains(message, id) {
			t.Errorf("%s is told as %s", id, message)
		}
	}
	o := whole()
	o.Execute = func(_ context.Context, _ runtime.Caller, s Script) (Execution, error) {
		wait(s.Pending, "apr_1")
		return Execution{Body: map[string]any{}, ID: "exe_1", Approval: "apr_1"}, nil
	}
	o.Resume = func(_ context.Context, _ runtime.Caller, r Resumption) (Execution, error) {
		wait(r.Pending, "apr_2")
		return Execution{Body: map[string]any{}}, nil
	}
	o.Collect = func(_ context.Context, _ runtime.Caller, r Resumption) (Answer, error) {
		wait(r.Pending, "apr_3")
		return Answer{}, nil
	}
	session := serve(t, o, "2025-11-25", &sdk.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			shown <- r.Params.Message
			return &sdk.ElicitResult{Action: "decline"}, nil
		},
	})
	for _, use := range []struct {
		tool string
		args map[string]any
	}{
		{"execute", map[string]any{"code": "return 1", "wait": 9}}, {"resume", map[string]any{"id": "exe_1"}}, {"resume", map[string]any{"id": "apr_1"}},
	} {
		if r, text := call(t, session, use.tool, use.args); r.IsError {
			t.Errorf("%s: %s", use.tool, text)
		}
	}
	select {
	case message := <-shown:
		t.Errorf("once more: %s", message)
	case <-time.After(50 * time.Millisecond):
	}
}
