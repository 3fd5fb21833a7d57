package sandbox_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// heartbeat waits for a person while a timer rings again and again.
func heartbeat(m *machine) any {
	asked := m.call("notes.deleteNote", `{"id":1}`)
	for {
		tick := m.timer(1)
		if winner, r := m.first(asked, tick); winner == asked {
			return r.Value
		}
	}
}

// A script with a timer is never paused. A person's yes reaches it all the same.
func TestAYesReachesAScriptWithATimer(t *testing.T) {
	b := newBench(t, heartbeat)
	b.o.Look = time.Millisecond
	asked := make(chan struct{})
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		answer := b.answer(ctx, call)
		if answer.Err != nil {
			close(asked)
		}
		return answer
	}
	b.restart("1:a")
	go func() {
		<-asked
		b.decide("apr_1", nil)
	}()
	got := b.execute(sandbox.Script{Source: "x", Timeout: 20 * time.Second})
	if !got.Success || string(got.Value) != `"{\"did\":{\"id\":1}}"` || got.Calls[0].Status != sandbox.CallOK || fmt.Sprint(b.effects()) != `[notes.delete-note{"id":1}]` {
		t.Errorf("%+v, made %v", got, b.effects())
	}
}

// Whoever reads how a script ended learns which questions it has left open, and a script
// that was not paused why.
func TestAnEndNamesTheQuestionsThatAreOpen(t *testing.T) {
	const left = "the script has ended, and a person has not decided on notes.delete-note (apr_1): the same call, made again, uses a yes or waits for it"
	for name, c := range map[string]struct {
		program program
		within  time.Duration
		failure string
	}{
		"it lost a race": {func(m *machine) any {
			m.first(m.call("notes.deleteNote", `{"id":1}`), m.timer(1000))
			return "late"
		}, time.Minute, ""},
		"it threw": {func(m *machine) any {
			m.first(m.call("notes.deleteNote", `{"id":1}`), m.timer(1000))
			return &frame.Failure{Kind: frame.KindException, Message: "late"}
		}, time.Minute, "late"},
		"its time was over": {heartbeat, 2 * time.Second, "the script ran longer than 2s: notes.delete-note waits for a person (apr_1), and the script is not paused for that while it has timers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.program)
			b.o.Look = time.Millisecond
			b.restart("1:a")
			got := b.execute(sandbox.Script{Source: "x", Timeout: c.within})
			if got.Error != c.failure || got.Calls[0].Status != sandbox.CallCanceled || len(got.Logs) != 1 || got.Logs[0].Message != left || got.Logs[0].Level != "warn" {
				t.Errorf("%+v", got)
			}
			if kept := b.resume(got.ExecutionID, 0); len(kept.Logs) != 1 || !strings.Contains(kept.Logs[0].Message, "apr_1") {
				t.Errorf("asked for later: %+v", kept)
			}
		})
	}
}

// A call that a yes has begun when the script ends may have happened: nobody is told that
// the question is open.
func TestACallThatAYesHasBegunIsNotUndecided(t *testing.T) {
	begun := make(chan struct{})
	b := newBench(t, func(m *machine) any {
		m.call("notes.deleteNote", `{"id":1}`)
		m.first(m.timer(1))
		b := m.call("notes.getNote", `{"id":2}`)
		m.first(b)
		return 1
	})
	b.o.Look = time.Millisecond
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		switch {
		case call.Step == 1 && len(b.decisions) > 0:
			close(begun)
			<-ctx.Done()
			return sandbox.Answer{}
		case call.Step == 1:
			defer b.decide("apr_1", nil)
		default:
			select {
			case <-begun:
			case <-ctx.Done():
			}
		}
		return b.answer(ctx, call)
	}
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x"})
	if !got.Success || got.Calls[0].Status != sandbox.CallCanceled || len(got.Logs) != 1 || got.Logs[0].Message != "1 call was not awaited and was cut off: notes.delete-note" {
		t.Errorf("%+v", got)
	}
}

// A script that goes on asks four times a second how its question stands. That this cannot be
// told just now, as while the store is busy, is no answer to its call.
func TestAQuestionThatCannotBeLookedAtStaysOpen(t *testing.T) {
	b := newBench(t, heartbeat)
	b.o.Look = time.Millisecond
	looks := 0
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		b.mu.Lock()
		looks++
		now := looks
		b.mu.Unlock()
		switch now {
		case 1:
			return true, &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "the database is in use by others"}
		case 2:
			b.decide("apr_1", nil)
		}
		return b.approval(ctx, caller, who, id, wait)
	}
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x", Timeout: 20 * time.Second})
	if !got.Success || got.Calls[0].Status != sandbox.CallOK || len(b.effects()) != 1 {
		t.Errorf("%+v, made %v", got, b.effects())
	}
}

// A worker is not believed: it says that it waits for one of two questions while the other
// one is looked at. The script is not paused then, and nothing is made twice.
func TestAPauseBesideALookMakesNoCallTwice(t *testing.T) {
	looking, answer := make(chan struct{}), make(chan struct{})
	b := newBench(t, func(m *machine) any {
		m.call("notes.deleteNote", `{"id":1}`)
		m.call("notes.deleteNote", `{"id":2}`)
		<-looking
		m.say(&frame.ToHost{Idle: &frame.Idle{Waiting: []int{1}}})
		for range 100 { // while the first is looked at and known to be open
			m.log("still here")
		}
		m.do("notes.getNote", `{"id":3}`)
		m.first(2)
		m.first(1)
		return 1
	})
	b.o.Look = time.Millisecond
	var look, decide sync.Once
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		if id == "apr_2" {
			look.Do(func() {
				close(looking)
				<-answer
			})
		}
		return b.approval(ctx, caller, who, id, wait)
	}
	goesOn := func() {
		decide.Do(func() {
			b.decide("apr_1", nil)
			b.decide("apr_2", nil)
			close(answer)
		})
	}
	b.o.Record = func(ctx context.Context, e sandbox.Event) error {
		if e.Kind == "exec.pause" {
			goesOn()
		}
		return b.record(ctx, e)
	}
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		if call.Step == 3 {
			goesOn()
		}
		return b.answer(ctx, call)
	}
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x", Wait: 20 * time.Second})
	if made := b.effects(); !got.Success || len(made) != 3 {
		t.Errorf("%+v, made %v", got, made)
	}
}

// Who runs a script hears of a question as soon as it is asked, whether or not the script is
// paused for it; of several one after the other, and of none twice.
func TestWhoRunsAScriptHearsOfItsQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		program     program
		first, then int // of how many: until it is paused or has ended, and once the first was accepted
	}{
		"paused": {func(m *machine) any { return m.do("notes.deleteNote", `{"id":1}`) }, 1, 1},
		"two at once": {func(m *machine) any {
			one, two := m.call("notes.deleteNote", `{"id":1}`), m.call("notes.deleteNote", `{"id":2}`)
			return m.await(one) + m.await(two)
		}, 1, 2},
		"not paused": {func(m *machine) any {
			m.first(m.call("notes.deleteNote", `{"id":1}`), m.timer(1000))
			return nil
		}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, c.program)
			var heard []string
			asked := func(id string, expires time.Time) {
				if expires.IsZero() {
					t.Errorf("%s does not expire", id)
				}
				heard = append(heard, id)
			}
			got := b.execute(sandbox.Script{Source: "x", Asked: asked})
			if len(heard) != c.first {
				t.Fatalf("heard of %v; %+v", heard, got)
			}
			if got.Paused != nil {
				b.decide(heard[0], nil)
				if _, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: got.ExecutionID, Caller: runtime.Caller{Token: runtime.NewSecret("me")}, Asked: asked}); err != nil {
					t.Fatal(err)
				}
			}
			if len(heard) != c.then || len(heard) == 2 && heard[0] == heard[1] {
				t.Errorf("then of %v", heard)
			}
		})
	}
}
