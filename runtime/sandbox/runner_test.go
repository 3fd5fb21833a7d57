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

func TestScriptCallsToolsAndReturns(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		m.log("hello")
		return m.do("notes.getNote", `{"id":1}`) + m.do("n.get_note", `{"id":2}`) + m.do("notes.create-note", "")
	})
	got := b.execute(sandbox.Script{Source: "x"})
	if !got.Success || string(got.Value) != `"{\"did\":{\"id\":1}}{\"did\":{\"id\":2}}{\"did\":{}}"` {
		t.Fatalf("%+v", got)
	}
	if len(got.Calls) != 3 || got.Calls[1].Path != "notes.get-note" || string(got.Calls[1].Args) != `{"id":2}` || got.Calls[1].Status != sandbox.CallOK {
		t.Errorf("calls %+v", got.Calls)
	}
	if len(got.Logs) != 1 || got.Logs[0].Message != "hello" {
		t.Errorf("logs %+v", got.Logs)
	}
	var kinds []string
	for _, e := range b.events {
		kinds = append(kinds, e.Kind+" "+e.Fields["tools"]+e.Fields["result"])
	}
	if fmt.Sprint(kinds) != "[exec.start notes.get-note exec.end ok]" || len(b.events[0].Fields["sha256"]) != 64 {
		t.Errorf("events %v", kinds)
	}
	if again, err := b.runner.Status(t.Context(), runtime.Caller{Token: runtime.NewSecret("me")}, got.ExecutionID); err != nil || string(again.Value) != string(got.Value) {
		t.Errorf("status %+v, %v", again, err)
	}
}

func TestWhatTheGateRefusesDoesNotRun(t *testing.T) {
	b := newBench(t, func(m *machine) any { return m.do("notes.getNote", `{}`) })
	got := b.execute(sandbox.Script{Source: "import x"})
	want := "AST validation failed\nLine 1:1 Import declarations are not allowed in sandboxed code"
	if got.Success || got.Kind != frame.KindRejected || got.Error != want || len(b.effects()) > 0 {
		t.Errorf("%+v", got)
	}
	long := b.execute(sandbox.Script{Source: strings.Repeat("x", 64<<10+1)})
	if long.Kind != frame.KindRejected || !strings.Contains(long.Error, "65537 bytes") {
		t.Errorf("%+v", long)
	}
}

// What a script may not use is refused at the call, and by the pipeline, so that
// it is recorded.
func TestCallsOutsideOfWhatIsAllowedAreRefused(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		return []string{
			m.do("notes.getNotes", `{}`), m.do("nothing", `{}`), m.do("notes.createNote", `{}`), m.do("notes.getNote", `[1]`), m.do("notes.getNote", `{"id":1}`),
		}
	})
	got := b.execute(sandbox.Script{Source: "x", Allow: []runtime.Glob{"notes.get-*"}})
	text := string(got.Value)
	for _, want := range []string{
		"unknown_action: there is no tool", "did you mean tools.notes.getNote?", "forbidden: this execution may use",
		"invalid_input: a tool takes one object", `{\"did\"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(text, "other") || len(b.effects()) != 1 {
		t.Errorf("%s; made %v", text, b.effects())
	}
}

func TestCallsThatNobodyAwaitsAreCutOff(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		m.await(m.timer(1)) // so that the first record is durable, and the call is begun at once
		m.call("notes.getNote", `{"id":1}`)
		return 1
	})
	cut := make(chan struct{})
	b.invoke = func(ctx context.Context, _ sandbox.Invocation) sandbox.Answer {
		<-ctx.Done()
		close(cut)
		return sandbox.Answer{Err: &runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away"}}
	}
	got := b.execute(sandbox.Script{Source: "x"})
	<-cut
	if !got.Success || len(got.Calls) != 1 || got.Calls[0].Status != sandbox.CallCanceled {
		t.Errorf("%+v", got)
	}
	if len(got.Logs) != 1 || got.Logs[0].Level != "warn" || !strings.Contains(got.Logs[0].Message, "1 call was not awaited") {
		t.Errorf("logs %+v", got.Logs)
	}
}

func TestEndingsHaveKinds(t *testing.T) {
	for name, c := range map[string]struct {
		program program
		kind    frame.Kind
		text    string
	}{
		"exception": {func(*machine) any {
			return &frame.Failure{Kind: frame.KindException, Name: "TypeError", Message: "x is not a function", Line: 3, Column: 7}
		}, frame.KindException, "TypeError: x is not a function (line 3:7)"},
		"timeout":   {func(m *machine) any { m.next(); return nil }, frame.KindTimeout, "longer than 50ms"},
		"memory":    {func(m *machine) any { m.Kill(); panic(errGone) }, frame.KindMemory, "96 MiB"},
		"seq":       {func(m *machine) any { m.seq = 7; m.call("notes.getNote", ""); return nil }, frame.KindInterrupted, "broke off"},
		"two kinds": {func(*machine) any { return &frame.Failure{Kind: "well", Message: "x"} }, frame.KindInterrupted, "broke off"},
		"too many": {func(m *machine) any {
			for range 17 {
				m.call("notes.getNote", "")
			}
			return nil
		}, frame.KindInterrupted, "broke off"},
		"a long path": {func(m *machine) any {
			m.call("notes."+strings.Repeat("a", 2000), "{}")
			return nil
		}, frame.KindInterrupted, "broke off"},
		"silence to replies": {func(m *machine) any {
			for range 3 {
				m.timer(0)
			}
			<-m.gone
			panic(errGone)
		}, frame.KindTimeout, "longer than"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.program)
			b.invoke = func(ctx context.Context, _ sandbox.Invocation) sandbox.Answer { <-ctx.Done(); return sandbox.Answer{} }
			limit := time.Minute
			if c.kind == frame.KindTimeout {
				limit = 50 * time.Millisecond
			}
			got := b.execute(sandbox.Script{Source: "x", Timeout: limit})
			if got.Success || got.Kind != c.kind || !strings.Contains(got.Error, c.text) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestTooManyScriptsAreRefused(t *testing.T) {
	b := newBench(t, func(m *machine) any { m.next(); return nil })
	b.o.Workers, b.o.Queue = 1, 1
	b.restart("1:a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 2)
	me := sandbox.Script{Source: "x", Caller: runtime.Caller{Token: runtime.NewSecret("me")}}
	for range 2 {
		go func() {
			for ctx.Err() == nil { // until it has the room that the short ones below leave
				_, _ = b.runner.Execute(ctx, me)
			}
			ended <- nil
		}()
	}
	for {
		short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		_, err := b.runner.Execute(short, me)
		cancel()
		if runtime.CodeOf(err) == runtime.CodeRateLimited {
			break
		}
	}
	stop()
	<-ended
	<-ended
}
