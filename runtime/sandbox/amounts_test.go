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
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// filled are arguments of about so many bytes.
func filled(n int) string { return fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", n)) }

// A result repeats what its calls were given, as far as all of that is no more than one
// answer may be: for a script of large ones it would be as long as they are together.
func TestAResultRepeatsSoMuchOfItsCalls(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		for _, n := range []int{10, 600, 600, 20} {
			m.do("notes.createNote", filled(n))
		}
		return "done"
	})
	b.o.Limits.Argument, b.o.Limits.Result = 1000, 1000
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x"})
	if !got.Success || len(got.Calls) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{filled(10), filled(600), "null", filled(20)} {
		if string(got.Calls[i].Args) != want || got.Calls[i].Status != sandbox.CallOK {
			t.Errorf("call %d: %s %.40s, want %.40s", i, got.Calls[i].Status, got.Calls[i].Args, want)
		}
	}
}

// What was done and answered too much is not done again for that.
func TestAnAnswerThatIsTooLongWasDone(t *testing.T) {
	b := newBench(t, func(m *machine) any { m.do("notes.createNote", `{}`); return nil })
	b.o.Limits.Result = 1000
	b.restart("1:a")
	b.invoke = func(context.Context, sandbox.Invocation) sandbox.Answer {
		return sandbox.Answer{Value: filled(1000), Status: 200}
	}
	if got := b.execute(sandbox.Script{Source: "x"}); len(got.Calls) != 1 || !strings.Contains(got.Calls[0].Error, "1011 bytes") || !strings.Contains(got.Calls[0].Error, "was done") {
		t.Errorf("%+v", got.Calls)
	}
}

// Whose scripts wait for a person has no more of them in memory than one script may have:
// another is paused at once, and can be resumed. Small ones wait, and so do those of others.
func TestScriptsThatWaitAreBoundedByBytes(t *testing.T) {
	var question, length atomic.Int64
	length.Store(40_000)
	b := newBench(t, func(m *machine) any {
		m.do("notes.createNote", filled(int(length.Load())))
		return m.do("notes.deleteNote", fmt.Sprintf(`{"id":%d}`, question.Add(1)))
	})
	waits := make(chan struct{})
	b.o.Limits.Traffic = 100_000
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		if wait != sandbox.Now {
			waits <- struct{}{}
		}
		return b.approval(ctx, caller, who, id, wait)
	}
	b.restart("1:a")
	var wg sync.WaitGroup
	begin := func(who string) (paused chan sandbox.Result) {
		paused = make(chan sandbox.Result, 1)
		wg.Go(func() {
			got, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Wait: time.Minute, Caller: runtime.Caller{Token: runtime.NewSecret(who)}})
			if err != nil {
				t.Errorf("%s: %v", who, err)
			}
			paused <- got
		})
		return paused
	}
	for _, one := range []struct {
		who    string
		length int64
		waits  bool
	}{
		{"greedy", 40_000, true}, {"greedy", 40_000, false}, {"other", 40_000, true}, {"greedy", 10, true},
		{"third", 47_000, true}, {"fourth", 47_000, true}, {"fifth", 25_600, true}, // together they have all there is
		{"sixth", 1000, false}, {"sixth", 600, true}, {"greedy", 600, true},
	} {
		length.Store(one.length)
		ended := begin(one.who)
		select {
		case <-waits:
			if !one.waits {
				t.Error("one more waits in memory")
			}
		case got := <-ended:
			if one.waits || got.Paused == nil {
				t.Errorf("%s, %d bytes: paused %+v, error %q", one.who, one.length, got.Paused, got.Error)
			}
		}
	}
	for id := range question.Load() {
		b.decide(fmt.Sprint("apr_", id+1), nil)
	}
	wg.Wait()
}

// most counts how many do a thing at once.
type most struct{ now, ever atomic.Int64 }

// one does it, for a moment: a test fails only when others do meanwhile.
func (m *most) one() {
	defer m.now.Add(-1)
	if n := m.now.Add(1); n > m.ever.Load() {
		m.ever.Store(n)
	}
	time.Sleep(20 * time.Millisecond)
}

// reading is a store that counts who reads calls back.
type reading struct {
	*memory
	most
}

func (r *reading) ExecutionCalls(ctx context.Context, tenant runtime.Tenant, id string) ([]journal.Call, error) {
	r.one()
	return r.memory.ExecutionCalls(ctx, tenant, id)
}

// Of those that are resumed from the store no more are read into memory at a time than
// run, and what a dead process leaves behind takes its turn like any other.
func TestScriptsThatAreResumedTakeTurns(t *testing.T) {
	const scripts = 4
	var run most
	b := newBench(t, func(m *machine) any { return m.do("notes.getNote", `{"id":1}`) })
	var ids []string
	for range scripts {
		ids = append(ids, b.execute(sandbox.Script{Source: "x"}).ExecutionID)
	}
	b.runner.Dispose()
	for _, id := range ids {
		row := b.store.rows[id]
		row.State, row.Result = journal.Running, nil
		b.store.rows[id] = row
	}
	b.program = func(m *machine) any {
		run.one()
		return m.do("notes.getNote", `{"id":1}`)
	}
	store := &reading{memory: b.store}
	b.o.Workers, b.o.Store = 1, store
	b.restart("2:b")
	var wg sync.WaitGroup
	for _, id := range ids {
		wg.Go(func() {
			got, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: id, Caller: runtime.Caller{Token: runtime.NewSecret("me")}})
			if err != nil || !got.Success {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	wg.Wait()
	if run, read := run.ever.Load(), store.ever.Load(); run != 1 || read != 1 {
		t.Errorf("%d ran at once, %d were read", run, read)
	}
}

// Who waits for a turn with much that was read back is in nobody's way: others are resumed,
// and learn how they stand, however long the line of its owner is. It goes on all the same.
func TestAResumedScriptThatWaitsForItsTurnKeepsNobodyFromResuming(t *testing.T) {
	var length atomic.Int64
	asks := func(m *machine) any {
		m.do("notes.createNote", filled(int(length.Load())))
		return m.do("notes.deleteNote", fmt.Sprintf(`{"id":%d}`, length.Load()))
	}
	b := newBench(t, asks)
	as := func(who string) runtime.Caller { return runtime.Caller{Token: runtime.NewSecret(who)} }
	begin := func(who string, n int64) *sandbox.Paused {
		t.Helper()
		length.Store(n)
		got, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Caller: as(who)})
		if err != nil || got.Paused == nil {
			t.Fatalf("%+v %v", got, err)
		}
		return got.Paused
	}
	other, greedy := begin("other", 10), begin("greedy", 900)
	b.runner.Dispose()
	b.decide(greedy.ApprovalID, nil)
	looked := make(chan struct{}, 1)
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		if id == greedy.ApprovalID && wait == sandbox.Now {
			select {
			case looked <- struct{}{}:
			default:
			}
		}
		return b.approval(ctx, caller, who, id, wait)
	}
	b.o.Workers, b.o.Limits.Result = 1, 500
	running, end := make(chan struct{}), make(chan struct{})
	b.program = func(*machine) any { close(running); <-end; return nil }
	b.restart("2:b")
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Caller: as("long")}); err != nil || !got.Success {
			t.Errorf("what runs: %+v %v", got, err)
		}
	})
	<-running
	b.program = asks
	wg.Go(func() {
		got, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: greedy.ExecutionID, Caller: as("greedy")})
		if err != nil || !got.Success {
			t.Errorf("what waited for its turn: %+v %v", got, err)
		}
	})
	<-looked
	soon, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := b.runner.Resume(soon, sandbox.Resumption{ID: other.ExecutionID, Caller: as("other")})
	if err != nil || got.Paused == nil || got.Paused.ApprovalID != other.ApprovalID {
		t.Errorf("another is kept from resuming: %+v %v", got, err)
	}
	length.Store(900)
	close(end)
	wg.Wait()
	if made := b.effects(); len(made) != 3 {
		t.Errorf("%d effects", len(made))
	}
}
