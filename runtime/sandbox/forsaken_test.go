package sandbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// twice asks a person two times.
func twice(m *machine) any {
	first := m.do("notes.deleteNote", `{"id":1}`)
	return []string{first, m.do("notes.deleteNote", `{"id":2}`)}
}

// A script whose second question could not be written down is nobody's any more: it
// can be resumed in the same process, and whoever asks is told so.
func TestAPauseThatCannotBeWrittenDownIsNotStuck(t *testing.T) {
	b, f := newBench(t, twice), &once{}
	b.o.Record = func(ctx context.Context, e sandbox.Event) error {
		if e.Kind == "exec.pause" && f.fails() {
			return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the disk is full"}
		}
		return b.record(ctx, e)
	}
	b.invoke = func(_ context.Context, call sandbox.Invocation) sandbox.Answer {
		question := fmt.Sprint("apr_", call.Step)
		if open, _ := b.approval(t.Context(), runtime.Principal{}, question, false); open {
			return sandbox.Answer{
				Err: &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: question, Msg: "a person must decide"}, Expires: b.clock.Add(time.Hour),
			}
		}
		b.made = append(b.made, question)
		return sandbox.Answer{Value: "1", Status: 200}
	}
	b.restart("1:a")
	id := b.execute(sandbox.Script{Source: "x"}).ExecutionID
	b.decide("apr_1", nil)
	f.arm(1)
	if got, err := b.goOn(t.Context(), id); err == nil {
		t.Fatalf("it paused: %+v", got)
	}
	status, err := b.runner.Status(t.Context(), runtime.Caller{Token: runtime.NewSecret("me")}, id)
	if err != nil || status.Kind != frame.KindInterrupted || !strings.Contains(status.Error, "resume it") {
		t.Errorf("how it stands: %+v, %v", status, err)
	}
	if got := b.resume(id, 0); got.Paused == nil || got.Paused.ApprovalID != "apr_2" {
		t.Fatalf("resumed: %+v", got)
	}
	b.decide("apr_2", nil)
	if end := b.resume(id, 0); !end.Success || fmt.Sprint(b.effects()) != "[apr_1 apr_2]" {
		t.Errorf("at its end: %+v, made %v", end, b.effects())
	}
}

// An error says whether the script had begun, so that nobody begins it anew who asks for
// the same again.
func TestAnErrorNamesTheScriptThatHadBegun(t *testing.T) {
	for kind, begun := range map[string]bool{"exec.start": false, "exec.pause": true} {
		b := newBench(t, story)
		b.o.Record = func(ctx context.Context, e sandbox.Event) error {
			if e.Kind == kind {
				return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the disk is full"}
			}
			return b.record(ctx, e)
		}
		b.restart("1:a")
		result, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Caller: runtime.Caller{Token: runtime.NewSecret("me")}})
		if err == nil || (result.ExecutionID != "") != begun || (len(b.effects()) > 0) != begun {
			t.Errorf("%s: %+v, %v, made %v", kind, result, err, b.effects())
		}
	}
}
