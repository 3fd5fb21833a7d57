package sandbox_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// refusing is a store that does not take ends while it is armed.
type refusing struct {
	*memory
	once
	refused chan string // ids of the ends that it refused, as far as there is room
}

func (s *refusing) WriteExecution(ctx context.Context, e journal.Execution, calls []journal.Call) (bool, error) {
	if e.State == journal.Ended && s.fails() {
		select {
		case s.refused <- e.ID:
		default:
		}
		return false, &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "busy"}
	}
	return s.memory.WriteExecution(ctx, e, calls)
}

// late waits until the end of an execution is among those that are tried again: it was
// refused twice.
func (s *refusing) late(t *testing.T, id string) {
	t.Helper()
	for times := 0; times < 2; {
		select {
		case refused := <-s.refused:
			if refused == id {
				times++
			}
		case <-time.After(30 * time.Second):
			t.Fatal("its end is not tried again")
		}
	}
}

// finished is a script that was paused, was gone on with and has ended, while the store
// refuses that so many times.
func (b *bench) finished(s *refusing, times int) (string, sandbox.Result) {
	b.t.Helper()
	b.mu.Lock()
	delete(b.decisions, "apr_1")
	b.mu.Unlock()
	id := b.execute(sandbox.Script{Source: "x"}).ExecutionID
	b.decide("apr_1", nil)
	s.arm(times)
	end := b.resume(id, 0)
	if !end.Success {
		b.t.Fatalf("%+v", end)
	}
	return id, end
}

func (b *bench) status(id string) sandbox.Result {
	b.t.Helper()
	result, err := b.runner.Status(b.t.Context(), runtime.Caller{Token: runtime.NewSecret("me")}, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// stateOf is how an execution stands in the store.
func (m *memory) stateOf(id string) journal.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows[id].State
}

func newRefusing(t *testing.T, late int) (*bench, *refusing) {
	b := newBench(t, story)
	s := &refusing{memory: b.store, refused: make(chan string, 100)}
	b.o.Store, b.o.Late = s, late
	b.restart("1:a")
	return b, s
}

// An end that the store refuses is written later. Until then who asks is answered from
// memory, and nothing is run again.
func TestAnEndThatTheStoreRefusesIsKeptLater(t *testing.T) {
	b, s := newRefusing(t, 0)
	id, end := b.finished(s, 1)
	runtimetest.Eventually(t, "it is tried again", func() bool {
		if got := b.status(id); string(got.Value) != string(end.Value) {
			t.Fatalf("meanwhile: %+v", got)
		}
		return b.store.stateOf(id) == journal.Ended
	})
	b.restart("1:a") // which has nothing of it in memory
	if got := b.status(id); string(got.Value) != string(end.Value) {
		t.Errorf("as it is kept: %+v", got)
	}
	if got := b.resume(id, 0); string(got.Value) != string(end.Value) || len(b.effects()) != 3 {
		t.Errorf("resumed: %+v, made %v", got, b.effects())
	}
}

// What is given up is not said to run: there are too many, it is too old, or the
// process ends.
func TestAResultThatIsGivenUpIsNotSaidToRun(t *testing.T) {
	var late atomic.Int64
	for name, giveUp := range map[string]func(b *bench, s *refusing, id string) (given string){
		"too many": func(b *bench, s *refusing, first string) string {
			s.late(b.t, first)
			second, _ := b.finished(s, 1000)
			return second
		},
		"too old": func(b *bench, _ *refusing, id string) string {
			late.Store(int64(25 * time.Hour))
			return id
		},
		"the end of the process": func(b *bench, _ *refusing, id string) string {
			began := time.Now()
			b.runner.Dispose()
			b.runner.Dispose()
			if took := time.Since(began); took > 5*time.Second {
				b.t.Errorf("it took %v", took)
			}
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := newRefusing(t, 1)
			late.Store(0)
			b.o.Clock = func() time.Time { return b.clock.Add(time.Duration(late.Load())) }
			b.restart("1:a")
			first, end := b.finished(s, 1000)
			given := giveUp(b, s, first)
			made := len(b.effects())
			runtimetest.Eventually(t, "it is interrupted", func() bool { return b.status(given).Kind == frame.KindInterrupted })
			for how, got := range map[string]sandbox.Result{"status": b.status(given), "resumed": b.resume(given, 0)} {
				if got.Kind != frame.KindInterrupted || !strings.Contains(got.Error, "has ended") || got.Paused != nil || got.ExecutionID != given {
					t.Errorf("%s: %+v", how, got)
				}
			}
			if given != first && string(b.status(first).Value) != string(end.Value) {
				t.Errorf("the one before: %+v", b.status(first))
			}
			if len(b.effects()) != made {
				t.Errorf("made %v", b.effects())
			}
		})
	}
}

// What was given up is not gone on with by the next process either: it has ended, and its
// caller was told so.
func TestAResultThatWasGivenUpIsNotRunAgainAfterARestart(t *testing.T) {
	for name, giveUp := range map[string]func(b *bench, s *refusing, id string) (given string){
		"too many": func(b *bench, s *refusing, first string) string {
			s.late(b.t, first)
			second, _ := b.finished(s, 1000)
			return second
		},
		"the end of the process": func(b *bench, _ *refusing, id string) string { b.runner.Dispose(); return id },
	} {
		t.Run(name, func(t *testing.T) {
			b, s := newRefusing(t, 1)
			first, _ := b.finished(s, 1000)
			given := giveUp(b, s, first)
			runtimetest.Eventually(t, "it is interrupted", func() bool { return b.status(given).Kind == frame.KindInterrupted })
			s.arm(0)
			made := len(b.effects())
			b.restart("2:b")
			for how, got := range map[string]sandbox.Result{"status": b.status(given), "resumed": b.resume(given, 0), "again": b.resume(given, 0)} {
				if got.Kind != frame.KindInterrupted || !strings.Contains(got.Error, "has ended") || got.Paused != nil || got.ExecutionID != given {
					t.Errorf("%s: %+v", how, got)
				}
			}
			if len(b.effects()) != made {
				t.Errorf("made %v", b.effects()[made:])
			}
		})
	}
}

// The end of the process tries once more.
func TestAnEndIsKeptBeforeTheProcessGoes(t *testing.T) {
	b, s := newRefusing(t, 0)
	id, _ := b.finished(s, 2)
	b.runner.Dispose()
	if state := b.store.stateOf(id); state != journal.Ended {
		t.Errorf("it stands as %q", state)
	}
}
