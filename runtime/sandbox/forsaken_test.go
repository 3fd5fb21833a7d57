package sandbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
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
		if open, _ := b.approval(t.Context(), runtime.Caller{}, runtime.Principal{}, question, sandbox.Now); open {
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
				return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the disk is full", RetryAfter: time.Second}
			}
			return b.record(ctx, e)
		}
		b.restart("1:a")
		result, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Caller: runtime.Caller{Token: runtime.NewSecret("me")}})
		if err == nil || (result.ExecutionID != "") != begun || (len(b.effects()) > 0) != begun {
			t.Errorf("%s: %+v, %v, made %v", kind, result, err, b.effects())
		}
		e := runtime.AsError(err)
		if told := strings.Contains(e.Msg, result.ExecutionID+" had begun") && strings.HasSuffix(e.Hint, "--resume "+result.ExecutionID) && strings.HasSuffix(e.Ask, "; resume "+result.ExecutionID); told != begun || begun && e.RetryAfter != 0 {
			t.Errorf("%s: %s; %s; %v", kind, e.Msg, e.Hint, e.RetryAfter)
		}
	}
}

// A script that was waited with for a person and then finds no turn has begun, and is
// paused as before: it is not refused as one that its caller may send again.
func TestAScriptThatFindsNoTurnAfterAYesIsPaused(t *testing.T) {
	runs, running, end := atomic.Int32{}, make(chan struct{}), make(chan struct{})
	b := newBench(t, func(m *machine) any {
		if runs.Add(1) != 2 {
			return story(m)
		}
		close(running)
		<-end
		return nil
	})
	b.o.Workers, b.o.Queue = 1, 1
	b.restart("1:a")
	script := sandbox.Script{Source: "x", Wait: time.Minute, Caller: runtime.Caller{Token: runtime.NewSecret("me")}}
	var got sandbox.Result
	var err error
	ended, others := make(chan struct{}), sync.WaitGroup{}
	go func() { defer close(ended); got, err = b.runner.Execute(t.Context(), script) }()
	runtimetest.Eventually(t, "it waits", func() bool { return b.pauses() == 1 })
	others.Go(func() { _, _ = b.runner.Execute(t.Context(), script) })
	<-running
	ctx, leave := context.WithCancel(t.Context())
	others.Go(func() {
		for ctx.Err() == nil { // until it waits for its turn
			_, _ = b.runner.Execute(ctx, script)
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	runtimetest.Eventually(t, "there is no room", func() bool {
		_, err := b.runner.Execute(gone, script)
		return runtime.CodeOf(err) == runtime.CodeRateLimited
	})
	b.decide("apr_1", nil)
	<-ended
	if err != nil || got.Paused == nil || got.Paused.ApprovalID != "apr_1" || len(b.effects()) != 1 {
		t.Errorf("%+v, %v, made %v", got, err, b.effects())
	}
	leave()
	close(end)
	others.Wait()
	if end := b.resume(got.ExecutionID, 0); !end.Success || len(b.effects()) != 3 {
		t.Errorf("at its end: %+v, made %v", end, b.effects())
	}
}
