package sandbox_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// asksTwice needs a person two times, and goes on as far as it can with one yes.
func asksTwice(m *machine) any {
	one, two := m.call("notes.deleteNote", `{"id":1}`), m.call("notes.deleteNote", `{"id":2}`)
	m.await(one)
	return m.await(two)
}

// Who goes on with a script whose worker was kept is told of it, and nobody else: the
// request that began it has its answer, and may not be written to any more.
func TestOnlyWhoGoesOnIsToldOfAScript(t *testing.T) {
	me := runtime.Caller{Token: runtime.NewSecret("me")}
	for _, told := range []bool{false, true} {
		b := newBench(t, asksTwice)
		var before, after []string
		b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
			if wait != sandbox.Now { // for the second question
				b.decide(id, nil)
			}
			return b.approval(ctx, caller, who, id, wait)
		}
		b.restart("1:a")
		got := b.execute(sandbox.Script{Source: "x", Progress: func(stage, _ string) { before = append(before, stage) }})
		begun := slices.Clone(before)
		b.decide("apr_1", nil)
		asked := sandbox.Resumption{ID: got.ExecutionID, Caller: me, Wait: time.Hour}
		if told {
			asked.Progress = func(stage, _ string) { after = append(after, stage) }
		}
		end, err := b.runner.Resume(t.Context(), asked)
		if err != nil || !end.Success || len(b.effects()) != 2 {
			t.Fatalf("%+v, %v, made %v", end, err, b.effects())
		}
		if !slices.Equal(before, begun) {
			t.Errorf("who began it was told %v, and then %v", begun, before[len(begun):])
		}
		if told && !slices.Equal(after, []string{sandbox.StagePaused}) {
			t.Errorf("who goes on was told %v", after)
		}
	}
}

// Whatever panics where a script is followed, its process does not outlive that, and its
// owner can go on with it.
func TestAPanicLeavesNoProcess(t *testing.T) {
	me := runtime.Caller{Token: runtime.NewSecret("me")}
	breaks := func(stage, _ string) {
		if stage == sandbox.StagePaused {
			panic("broken")
		}
	}
	for name, run := range map[string]func(b *bench){
		"execute": func(b *bench) {
			_, _ = b.runner.Execute(b.t.Context(), sandbox.Script{Source: "x", Caller: me, Wait: time.Hour, Progress: breaks})
		},
		"resume": func(b *bench) {
			id := b.execute(sandbox.Script{Source: "x"}).ExecutionID
			b.decide("apr_1", nil)
			_, _ = b.runner.Resume(b.t.Context(), sandbox.Resumption{ID: id, Caller: me, Wait: time.Hour, Progress: breaks})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var living atomic.Int64
			b := newBench(t, asksTwice)
			b.o.Start = func(context.Context, sandbox.Limits) (sandbox.Worker, error) {
				living.Add(1)
				return &counted{machine: start(b.program), living: &living}, nil
			}
			b.restart("1:a")
			func() {
				defer func() {
					if recover() != "broken" {
						t.Error("the panic was swallowed")
					}
				}()
				run(b)
			}()
			if n := living.Load(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			b.decide("apr_1", nil)
			b.decide("apr_2", nil)
			if end := b.resume(b.store.only(t), 0); !end.Success || len(b.effects()) != 2 {
				t.Errorf("gone on with: %+v, made %v", end, b.effects())
			}
		})
	}
}

// only is the id of the one execution that there is.
func (m *memory) only(t *testing.T) string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.rows {
		if len(m.rows) == 1 {
			return id
		}
	}
	t.Fatalf("there are %d executions", len(m.rows))
	return ""
}
