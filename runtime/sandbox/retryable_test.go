package sandbox_test

import (
	"context"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// A script that makes a call again for as long as that is retryable does nothing twice: where
// the call may have happened, and may not be repeated, it is not.
func TestWhatMayHaveHappenedIsNotRetryable(t *testing.T) {
	lost := runtime.Error{Code: runtime.CodeUpstream, Reason: runtime.ReasonUpstreamUnavailable, Msg: "it closed the connection"}
	for _, c := range []struct {
		name         string
		err          runtime.Error
		status       int
		sent         bool
		read, change bool // whether it is retryable, by what was called
	}{
		{"not reached", lost, 0, false, true, true},
		{"closed without an answer", lost, 0, true, true, false},
		{"too late", runtime.Error{Code: runtime.CodeTimeout, Msg: "too late"}, 0, true, true, false},
		{"too late before it was sent", runtime.Error{Code: runtime.CodeTimeout, Msg: "too late"}, 0, false, true, true},
		{"a gateway without its server", runtime.Error{Code: runtime.CodeUpstream, Msg: "502"}, 502, true, true, false},
		{"the upstream's limit", runtime.Error{Code: runtime.CodeRateLimited, Msg: "429"}, 429, true, true, true},
		{"the same of a redirect", runtime.Error{Code: runtime.CodeRateLimited, Msg: "429 behind it"}, 429, true, true, false},
		{"the same with another status", runtime.Error{Code: runtime.CodeRateLimited, Msg: "403"}, 403, true, true, true},
		{"an answer without room", runtime.Error{Code: runtime.CodeRateLimited, Msg: "no room"}, 0, true, true, false},
		{"a limit of a policy", runtime.Error{Code: runtime.CodeRateLimited, Msg: "limit"}, 0, false, true, true},
		{"no record of its end", runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "full"}, 0, true, true, false},
		{"refused", runtime.Error{Code: runtime.CodeUpstream, Msg: "400"}, 400, true, false, false},
	} {
		for path, want := range map[string]bool{"notes.getNote": c.read, "notes.createNote": c.change} {
			got := false
			b := newBench(t, func(m *machine) any {
				_, reply := m.first(m.call(path, `{}`))
				got = reply.Error.Retryable
				return nil
			})
			b.invoke = func(context.Context, sandbox.Invocation) sandbox.Answer {
				err := c.err
				return sandbox.Answer{Status: c.status, Sent: c.sent, Followed: c.err.Msg == "429 behind it", Err: &err}
			}
			if end := b.execute(sandbox.Script{Source: "x"}); !end.Success || got != want {
				t.Errorf("%s, %s: retryable %v, want %v; %+v", c.name, path, got, want, end)
			}
		}
	}
}

// A script has no commands: a refusal of its arguments names the tool that describes the action.
func TestARefusalOfArgumentsNamesTheTool(t *testing.T) {
	for hint, want := range map[string]string{
		"kimbap actions describe notes.get-note":       `no; await tools.describe.tool({path: "notes.getNote"})`,
		"look: kimbap actions describe notes.get-note": `no; look: await tools.describe.tool({path: "notes.getNote"})`,
		"kimbap actions describe notes.other":          "no; kimbap actions describe notes.other",
	} {
		got := ""
		b := newBench(t, func(m *machine) any {
			_, reply := m.first(m.call("notes.getNote", `{}`))
			got = reply.Error.Message
			return nil
		})
		b.invoke = func(context.Context, sandbox.Invocation) sandbox.Answer {
			return sandbox.Answer{Err: &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "no", Hint: hint}}
		}
		if end := b.execute(sandbox.Script{Source: "x"}); !end.Success || got != want {
			t.Errorf("%s: %s, want %s", hint, got, want)
		}
	}
}
