package sandbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// counted is a machine that is counted while it lives.
type counted struct {
	*machine
	living *atomic.Int64
	once   sync.Once
}

func (c *counted) Kill() {
	c.machine.Kill()
	c.once.Do(func() { c.living.Add(-1) })
}

func (b *bench) pauses() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.events {
		if e.Kind == "exec.pause" {
			n++
		}
	}
	return n
}

// A script whose caller waits for a person has given its turn back. Its process
// may still not stay beyond the number of those that are kept.
func TestScriptsThatWaitForPeopleKeepFewProcesses(t *testing.T) {
	var living atomic.Int64
	b := newBench(t, story)
	b.o.Held, b.o.Grace = 2, time.Hour
	b.o.Start = func(context.Context, sandbox.Limits) (sandbox.Worker, error) {
		living.Add(1)
		return &counted{machine: start(b.program), living: &living}, nil
	}
	b.restart("1:a")
	const scripts = 12
	ctx, stop := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	for i := range scripts {
		ended.Go(func() {
			_, _ = b.runner.Execute(ctx, sandbox.Script{Source: "x", Wait: time.Hour, Caller: runtime.Caller{Token: runtime.NewSecret(fmt.Sprint(i))}})
		})
	}
	runtimetest.Eventually(t, "all wait", func() bool { return b.pauses() == scripts })
	runtimetest.Eventually(t, "at most two processes", func() bool { return living.Load() <= 2 })
	stop()
	ended.Wait()
}

// A caller waits for a person while somebody else goes on with the same execution
// in this process, as far as its next question. When the first one wakes up, what
// it knows is old: it must not make the decided call again. A yes for a while would
// let that through.
func TestAnExecutionThatIsWaitedForIsNotGoneOnWithTwice(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		m.do("notes.sendNote", `{}`)
		return m.do("notes.deleteNote", `{"id":2}`)
	})
	awake := make(chan struct{})
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		open, err := b.approval(ctx, caller, who, id, wait)
		if wait != sandbox.Now {
			<-awake // the one who waits hears of it late
		}
		return open, err
	}
	usual := b.o.Invoke
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		b.mu.Lock()
		_, yes := b.decisions["apr_1"]
		if yes && call.Ref == "notes.send-note" {
			b.made = append(b.made, string(call.Ref))
			b.mu.Unlock()
			return sandbox.Answer{Value: "1", Status: 200}
		}
		b.mu.Unlock()
		return usual(ctx, call)
	}
	b.restart("1:a")
	me := runtime.Caller{Token: runtime.NewSecret("me")}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		_, _ = b.runner.Execute(ctx, sandbox.Script{Source: "x", Wait: time.Hour, Caller: me})
		close(ended)
	}()
	runtimetest.Eventually(t, "it waits", func() bool { return b.pauses() == 1 })
	b.store.mu.Lock()
	id := ""
	for id = range b.store.rows {
	}
	b.store.mu.Unlock()
	b.decide("apr_1", nil)
	_, refused := b.runner.Resume(t.Context(), sandbox.Resumption{ID: id, Caller: me})
	before := b.pauses()
	close(awake)
	runtimetest.Eventually(t, "the one who waited goes on", func() bool { return b.pauses() > before })
	if refused == nil {
		t.Error("two go on with one execution")
	}
	stop()
	<-ended
	if got := b.effects(); len(got) != 1 {
		t.Errorf("made %v", got)
	}
}

// The store says whose an execution is. Who edits that gives nobody its answers.
func TestAnExecutionThatIsMadeSomebodyElsesDoesNotOpen(t *testing.T) {
	b := newBench(t, story)
	got := b.execute(sandbox.Script{Source: "x"})
	b.restart("2:b")
	b.decide("apr_1", nil)
	b.store.mu.Lock()
	row := b.store.rows[got.ExecutionID]
	row.Principal = "token:thief"
	b.store.rows[got.ExecutionID] = row
	b.store.mu.Unlock()
	thief := runtime.Caller{Token: runtime.NewSecret("thief")}
	_, rerr := b.runner.Resume(t.Context(), sandbox.Resumption{ID: got.ExecutionID, Caller: thief})
	_, serr := b.runner.Status(t.Context(), thief, got.ExecutionID)
	for _, err := range []error{rerr, serr} {
		if e := runtime.AsError(err); e == nil || e.Reason != runtime.ReasonTampered {
			t.Errorf("%v", err)
		}
	}
	if len(b.effects()) != 1 {
		t.Errorf("made %v", b.effects())
	}
}

// One agent's scripts fill neither the queue nor the waits: another one's has its
// turn.
func TestOneAgentsScriptsDoNotKeepOthersOut(t *testing.T) {
	turn := make(chan struct{})
	b := newBench(t, func(m *machine) any { m.do("notes.getNote", `{"id":1}`); return 1 })
	b.o.Workers, b.o.Queue = 1, 8
	b.o.Invoke = func(ctx context.Context, _ sandbox.Invocation) sandbox.Answer {
		select {
		case <-turn:
		case <-ctx.Done():
		}
		return sandbox.Answer{Value: "1"}
	}
	b.restart("1:a")
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	refused := make(chan struct{}, 20)
	for range 12 {
		crowd.Go(func() {
			_, err := b.runner.Execute(ctx, sandbox.Script{Source: "x", Caller: runtime.Caller{Token: runtime.NewSecret("crowd")}})
			if runtime.CodeOf(err) == runtime.CodeRateLimited {
				refused <- struct{}{}
			}
		})
	}
	for range 3 { // as many as have no room; with a fair queue more
		<-refused
	}
	other := make(chan error, 1)
	go func() {
		result, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Caller: runtime.Caller{Token: runtime.NewSecret("other")}})
		if err == nil && !result.Success {
			err = fmt.Errorf("%+v", result)
		}
		other <- err
	}()
	var err error
	for answered := false; !answered; {
		select {
		case turn <- struct{}{}:
		case err = <-other:
			answered = true
		case <-time.After(30 * time.Second):
			t.Fatal("the other one waits for ever")
		}
	}
	if err != nil {
		t.Error(err)
	}
	stop()
	crowd.Wait()
}

// A caller that waits for people holds a connection of a surface. One agent may
// not have all of those.
func TestOneAgentDoesNotWaitForPeopleEverywhere(t *testing.T) {
	b := newBench(t, story)
	b.o.Queue = 8
	b.restart("1:a")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const scripts = 6
	returned := make(chan sandbox.Result, scripts)
	for range scripts {
		go func() {
			me := runtime.Caller{Token: runtime.NewSecret("me")}
			for {
				result, err := b.runner.Execute(ctx, sandbox.Script{Source: "x", Wait: time.Hour, Caller: me})
				if runtime.CodeOf(err) != runtime.CodeRateLimited { // it had its turn
					returned <- result
					return
				}
			}
		}()
	}
	for range 2 { // four wait
		if result := <-returned; result.Paused == nil {
			t.Errorf("%+v", result)
		}
	}
	stop()
	for range scripts - 2 {
		<-returned
	}
}

// What panics in a call fails the call: it runs on a goroutine of its own, where a panic would
// end the process.
func TestAPanicInACallFailsIt(t *testing.T) {
	b := newBench(t, func(m *machine) any { m.do("notes.getNote", `{"id":1}`); return 1 })
	b.invoke = func(context.Context, sandbox.Invocation) sandbox.Answer { panic("nobody thought of it") }
	result := b.execute(sandbox.Script{Source: "x"})
	if len(result.Calls) != 1 || result.Calls[0].Status != sandbox.CallFailed {
		t.Fatalf("%+v", result)
	}
}
