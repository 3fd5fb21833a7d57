package sandbox_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// story reads, deletes what needs a person, and reads again.
func story(m *machine) any {
	first := m.do("notes.getNote", `{"id":1}`)
	m.log("asking")
	second := m.do("notes.deleteNote", `{"id":2}`)
	return []string{first, second, m.do("notes.getNote", `{"id":3}`), fmt.Sprint(m.seed)}
}

// The same in all ways that a script can come back: its worker still there, gone
// with the grace time, or the whole process new.
func TestPausedScriptsGoOnOnce(t *testing.T) {
	for name, between := range map[string]func(b *bench){
		"worker alive": func(*bench) {},
		"worker gone":  func(b *bench) { b.runner.Dispose() },
		"new process":  func(b *bench) { b.restart("2:b") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, story)
			got := b.execute(sandbox.Script{Source: "x"})
			if got.Success || got.Kind != "" || got.Paused == nil || got.Paused.ToolPath != "notes.delete-note" || got.Paused.ApprovalID != "apr_1" ||
				string(got.Paused.Args) != `{"id":2}` || got.Paused.ExecutionID != got.ExecutionID || !got.Paused.ExpiresAt.Equal(b.clock.Add(time.Hour)) {
				t.Fatalf("%+v", got)
			}
			if len(got.Calls) != 2 || got.Calls[1].Status != sandbox.CallPending {
				t.Errorf("calls %+v", got.Calls)
			}
			between(b)
			if again := b.resume(got.ExecutionID, 0); again.Paused == nil || len(b.effects()) != 1 {
				t.Fatalf("not decided yet, and went on: %+v, %v", again, b.effects())
			}
			b.decide("apr_1", nil)
			end := b.resume(got.ExecutionID, 0)
			want := `[notes.get-note{"id":1} notes.delete-note{"id":2} notes.get-note{"id":3}]`
			if !end.Success || fmt.Sprint(b.effects()) != want || len(end.Calls) != 3 || len(end.Logs) != 1 {
				t.Fatalf("%+v, made %v", end, b.effects())
			}
			if same := b.resume(got.ExecutionID, 0); string(same.Value) != string(end.Value) || len(b.effects()) != 3 {
				t.Errorf("resumed after its end: %+v, made %v", same, b.effects())
			}
		})
	}
}

func TestAScriptWaitsAsLongAsItMay(t *testing.T) {
	b := newBench(t, story)
	b.o.Grace = time.Millisecond // the worker is gone while it waits
	b.restart("1:a")
	go func() {
		for len(b.effects()) == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		b.decide("apr_1", nil)
	}()
	if got := b.execute(sandbox.Script{Source: "x", Wait: time.Minute}); !got.Success || len(b.effects()) != 3 {
		t.Errorf("%+v, made %v", got, b.effects())
	}
}

func TestRejectedAndExpiredCallsThrow(t *testing.T) {
	for _, code := range []runtime.Code{runtime.CodeApprovalRejected, runtime.CodeApprovalExpired} {
		b := newBench(t, story)
		got := b.execute(sandbox.Script{Source: "x"})
		b.restart("2:b")
		b.decide("apr_1", &runtime.Error{Code: code, Msg: "no"})
		end := b.resume(got.ExecutionID, 0)
		if !end.Success || !strings.Contains(string(end.Value), string(code)+": no") || end.Calls[1].Status != sandbox.CallFailed || len(b.effects()) != 2 {
			t.Errorf("%s: %+v, made %v", code, end, b.effects())
		}
	}
}

// Two calls race, and the one that was made second won before the pause.
func TestARaceHasTheSameWinnerAgain(t *testing.T) {
	slow := make(chan struct{})
	won := sync.OnceFunc(func() { close(slow) }) // it runs again
	b := newBench(t, func(m *machine) any {
		one, two := m.call("notes.getNote", `{"id":1}`), m.call("notes.getNote", `{"id":2}`)
		winner, _ := m.first(one, two)
		won()
		m.first(one)
		m.do("notes.deleteNote", fmt.Sprintf(`{"id":%d}`, winner))
		return winner
	})
	usual := b.answer
	b.invoke = nil
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		if call.Step == 1 {
			<-slow
		}
		return usual(ctx, call)
	}
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x"})
	if got.Paused == nil || string(got.Paused.Args) != `{"id":2}` {
		t.Fatalf("%+v", got)
	}
	b.restart("2:b")
	b.decide("apr_1", nil)
	if end := b.resume(got.ExecutionID, 0); !end.Success || string(end.Value) != "2" || len(b.effects()) != 3 {
		t.Errorf("%+v, made %v", end, b.effects())
	}
}

func TestAScriptThatDoesNotRepeatItselfEnds(t *testing.T) {
	id := 0
	for name, p := range map[string]program{
		"another call": func(m *machine) any {
			id++
			m.do("notes.getNote", fmt.Sprintf(`{"id":%d}`, id))
			return m.do("notes.deleteNote", `{"id":9}`)
		},
		"fewer calls": func(m *machine) any {
			if id++; id == 1 {
				m.do("notes.getNote", `{"id":1}`)
				return m.do("notes.deleteNote", `{"id":9}`)
			}
			return nil
		},
		"more calls": func(m *machine) any {
			if id++; id == 2 {
				m.call("notes.getNote", `{"id":7}`)
			}
			m.do("notes.getNote", `{"id":1}`)
			return m.do("notes.deleteNote", `{"id":9}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			id = 0
			b := newBench(t, p)
			got := b.execute(sandbox.Script{Source: "x"})
			b.restart("2:b")
			b.decide("apr_1", nil)
			end := b.resume(got.ExecutionID, 0)
			if end.Success || end.Kind != frame.KindInterrupted || !strings.Contains(end.Error, "did not repeat") || len(b.effects()) != 1 {
				t.Fatalf("%+v, made %v", end, b.effects())
			}
			if again := b.resume(got.ExecutionID, 0); again.Kind != frame.KindInterrupted || len(b.effects()) != 1 {
				t.Errorf("it was run again: %+v", again)
			}
		})
	}
}

// A process died. What it had begun and not written down is made again only where
// that may be done twice.
func TestWhatACrashLeavesOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		begun []sandbox.Begun
		kind  frame.Kind
		made  int
	}{
		{"nothing was begun", nil, "", 2},
		{"a call that may be repeated", []sandbox.Begun{{Step: 1, Action: "notes.get-note"}}, "", 2},
		{"one that may not", []sandbox.Begun{{Step: 1, Action: "notes.get-note", Args: json.RawMessage(`{"id":1}`)}, {Step: 2, Action: "notes.create-note"}}, frame.KindInterrupted, 0},
		{"several, and one that may not", []sandbox.Begun{{Step: 1, Action: "notes.create-note"}, {Step: 3, Action: "notes.create-note"}, {Step: 4, Action: "notes.get-note"}}, frame.KindInterrupted, 0},
		{"one that is unknown now", []sandbox.Begun{{Step: 1, Action: "gone.away"}}, frame.KindInterrupted, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(m *machine) any {
				m.do("notes.getNote", `{"id":1}`)
				return m.do("notes.createNote", `{"text":"x"}`)
			})
			first := b.execute(sandbox.Script{Source: "x"})
			b.runner.Dispose() // its result is kept
			// The journal as it was right after the start, and the process gone.
			row := b.store.rows[first.ExecutionID]
			row.State, row.Result = journal.Running, nil
			b.store.rows[first.ExecutionID], b.store.calls[first.ExecutionID] = row, nil
			b.mu.Lock()
			b.made, b.begun[first.ExecutionID] = nil, c.begun
			b.mu.Unlock()
			b.restart("2:b")
			end := b.resume(first.ExecutionID, 0)
			if end.Kind != c.kind || len(b.effects()) != c.made {
				t.Errorf("%+v, made %v", end, b.effects())
			}
			if end.Kind != frame.KindInterrupted {
				return
			}
			var told []sandbox.Begun // of calls that nobody knows the end of
			for i, one := range end.Calls {
				if one.Status == sandbox.CallUnknown && i < len(c.begun) {
					told = append(told, sandbox.Begun{Step: c.begun[i].Step, Action: runtime.Ref(one.Path), Args: c.begun[i].Args})
					if want := cmp.Or(string(c.begun[i].Args), "{}"); string(one.Args) != want {
						t.Errorf("it was begun with %s, and is told of with %s", want, one.Args)
					}
				}
			}
			if fmt.Sprint(told) != fmt.Sprint(c.begun) {
				t.Errorf("of its calls it tells %+v, begun were %v", end.Calls, c.begun)
			}
		})
	}
}

// Nobody goes on with what a dead process ran, and whoever asks is told so; resuming
// it is not refused for that.
func TestAnExecutionWhoseProcessDiedIsInterrupted(t *testing.T) {
	b := newBench(t, func(m *machine) any { return m.do("notes.getNote", `{"id":1}`) })
	id := b.execute(sandbox.Script{Source: "x"}).ExecutionID
	b.runner.Dispose()
	row := b.store.rows[id]
	row.State, row.Result = journal.Running, nil
	b.store.rows[id] = row
	b.restart("2:b")
	status := func() sandbox.Result {
		t.Helper()
		result, err := b.runner.Status(t.Context(), runtime.Caller{Token: runtime.NewSecret("me")}, id)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	b.alive = []string{"1:a", "2:b"}
	if got := status(); got.Kind != "" || got.Success || got.ExecutionID != id {
		t.Errorf("while its process runs: %+v", got)
	}
	b.alive = []string{"2:b"}
	for range 2 { // asking changes nothing
		if got := status(); got.Kind != frame.KindInterrupted || !strings.Contains(got.Error, "resume it") || got.ExecutionID != id {
			t.Errorf("after its death: %+v", got)
		}
	}
	if end := b.resume(id, 0); !end.Success {
		t.Errorf("resumed: %+v", end)
	}
	if got := status(); !got.Success {
		t.Errorf("at its end: %+v", got)
	}
}

func TestOnlyItsOwnerResumesAnExecution(t *testing.T) {
	b := newBench(t, story)
	got := b.execute(sandbox.Script{Source: "x"})
	other := runtime.Caller{Token: runtime.NewSecret("somebody")}
	_, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: got.ExecutionID, Caller: other})
	_, serr := b.runner.Status(t.Context(), other, got.ExecutionID)
	for _, err := range []error{err, serr} {
		if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonNotFound {
			t.Errorf("%v", err)
		}
	}
	if _, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: got.ExecutionID}); runtime.CodeOf(err) != runtime.CodeUnauthenticated {
		t.Errorf("%v", err)
	}
}

// Many want to go on at once, in two processes: one does.
func TestOneOfManyResumes(t *testing.T) {
	b := newBench(t, story)
	got := b.execute(sandbox.Script{Source: "x"})
	b.decide("apr_1", nil)
	first := b.runner
	b.restart("2:b")
	b.alive = append(b.alive, "1:a")
	ended := make(chan bool, 20)
	for i := range 20 {
		r := b.runner
		if i%2 == 0 {
			r = first
		}
		go func() {
			result, err := r.Resume(t.Context(), sandbox.Resumption{ID: got.ExecutionID, Caller: runtime.Caller{Token: runtime.NewSecret("me")}})
			ended <- err == nil && result.Success
		}()
	}
	won := 0
	for range 20 {
		if <-ended {
			won++
		}
	}
	if won == 0 || len(b.effects()) != 3 {
		t.Errorf("%d succeeded, made %v", won, b.effects())
	}
}

func TestEditedExecutionsAreRefused(t *testing.T) {
	for name, edit := range map[string]func(b *bench, id string){
		"script": func(b *bench, id string) { row := b.store.rows[id]; row.Script[9]++; b.store.rows[id] = row },
		"call": func(b *bench, id string) {
			c := b.store.calls[id]
			c[1] = journal.Call{Step: 1, Settled: 1, Sealed: c[2].Sealed}
		},
		"order":      func(b *bench, id string) { c := b.store.calls[id]; one := c[1]; one.Settled = 0; c[1] = one },
		"call's end": func(b *bench, id string) { delete(b.store.calls[id], 1) },
	} {
		b := newBench(t, story)
		got := b.execute(sandbox.Script{Source: "x"})
		edit(b, got.ExecutionID)
		b.restart("2:b")
		b.decide("apr_1", nil)
		_, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: got.ExecutionID, Caller: runtime.Caller{Token: runtime.NewSecret("me")}})
		if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTampered || len(b.effects()) != 1 {
			t.Errorf("%s: %v, made %v", name, err, b.effects())
		}
	}
}

// Time that a script waits for people is not its own, and what it has run counts
// across a pause.
func TestOnlyRunningTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(m *machine) any {
			m.do("notes.deleteNote", `{"id":1}`)
			m.await(m.timer(10))
			return 1
		})
		got := b.execute(sandbox.Script{Source: "x", Timeout: 200 * time.Millisecond})
		if got.Paused == nil {
			t.Fatalf("%+v", got)
		}
		time.Sleep(300 * time.Millisecond) // longer than it may run
		b.decide("apr_1", nil)
		if end := b.resume(got.ExecutionID, 0); !end.Success {
			t.Errorf("%+v", end)
		}
	})
}
