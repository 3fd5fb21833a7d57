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
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// once fails the first time that it is armed for.
type once struct {
	mu    sync.Mutex
	armed int
}

func (o *once) arm(times int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = times
}

func (o *once) fails() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.armed > 0 {
		o.armed--
		return true
	}
	return false
}

// goOn asks once for an execution, in the name of who began it.
func (b *bench) goOn(ctx context.Context, id string) (sandbox.Result, error) {
	return b.runner.Resume(ctx, sandbox.Resumption{ID: id, Caller: runtime.Caller{Token: runtime.NewSecret("me")}})
}

// An execution that was to go on, and of which nothing has run, can be gone on with
// again in the same process: whatever kept it from beginning, and once.
func TestWhatCouldNotBeginCanBeResumed(t *testing.T) {
	busy := &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the disk is full"}
	for name, fault := range map[string]func(b *bench, f *once, hangUp *context.CancelFunc){
		"the trail is full": func(b *bench, f *once, _ *context.CancelFunc) {
			b.o.Record = func(ctx context.Context, e sandbox.Event) error {
				if e.Kind == "exec.resume" && f.fails() {
					return busy
				}
				return b.record(ctx, e)
			}
		},
		"the trail cannot be read": func(b *bench, f *once, _ *context.CancelFunc) {
			b.o.Begun = func(ctx context.Context, tenant runtime.Tenant, id string) ([]sandbox.Begun, error) {
				if f.fails() {
					return nil, busy
				}
				return b.begunOf(ctx, tenant, id)
			}
		},
		"no worker starts": func(b *bench, f *once, _ *context.CancelFunc) {
			b.o.Start = func(context.Context, sandbox.Limits) (sandbox.Worker, error) {
				if f.fails() {
					return nil, context.DeadlineExceeded
				}
				return start(b.program), nil
			}
		},
		"the client hangs up": func(b *bench, f *once, hangUp *context.CancelFunc) {
			b.o.Start = func(ctx context.Context, _ sandbox.Limits) (sandbox.Worker, error) {
				if f.fails() {
					(*hangUp)()
					<-ctx.Done()
					return &machine{in: make(chan *frame.ToWorker, 9), out: make(chan *frame.ToHost), gone: make(chan struct{})}, nil
				}
				return start(b.program), nil
			}
		},
	} {
		for _, where := range []string{"worker alive", "worker gone", "new process", "crashed"} {
			t.Run(name+", "+where, func(t *testing.T) {
				b, f := newBench(t, story), &once{}
				var hangUp context.CancelFunc
				fault(b, f, &hangUp)
				b.restart("1:a")
				id := b.execute(sandbox.Script{Source: "x"}).ExecutionID
				switch where {
				case "worker gone":
					b.runner.Dispose()
				case "new process":
					b.restart("2:b")
				case "crashed":
					b.store.state(id, journal.Running)
					b.restart("2:b")
				}
				b.decide("apr_1", nil)
				if where == "worker alive" && name != "the trail is full" {
					return // nothing of that is needed there
				}
				for range 2 {
					f.arm(1)
					ctx, cancel := context.WithCancel(t.Context())
					hangUp = cancel
					got, err := b.goOn(ctx, id)
					cancel()
					if err == nil || len(b.effects()) != 1 {
						t.Fatalf("it went on: %+v, %v, made %v", got, err, b.effects())
					}
					if e := runtime.AsError(err); strings.Contains(e.Msg, "another process") {
						t.Fatalf("it is stuck: %v", err)
					}
				}
				f.arm(0)
				status, err := b.runner.Status(t.Context(), runtime.Caller{Token: runtime.NewSecret("me")}, id)
				if err != nil || status.Kind != frame.KindInterrupted || !strings.Contains(status.Error, "resume it") {
					t.Errorf("meanwhile: %+v, %v", status, err)
				}
				other := b.runner
				process := b.alive[0]
				b.restart("3:c")
				b.alive = append(b.alive, process)
				if _, err := b.goOn(t.Context(), id); err == nil || !strings.Contains(runtime.AsError(err).Msg, "another process") {
					t.Errorf("another process took it from one that lives: %v", err)
				}
				b.runner, b.alive = other, []string{process}
				b.resumeAtOnce(id)
				want := `[notes.get-note{"id":1} notes.delete-note{"id":2} notes.get-note{"id":3}]`
				if got := fmt.Sprint(b.effects()); got != want {
					t.Errorf("made %s, want %s", got, want)
				}
				if end := b.resume(id, 0); !end.Success || len(b.effects()) != 3 {
					t.Errorf("%+v, made %v", end, b.effects())
				}
			})
		}
	}
}

// resumeAtOnce has many go on with an execution at once, in this process: at least
// one of them does.
func (b *bench) resumeAtOnce(id string) {
	b.t.Helper()
	var all sync.WaitGroup
	won := make(chan bool, 10)
	for range cap(won) {
		all.Go(func() {
			result, err := b.goOn(b.t.Context(), id)
			won <- err == nil && result.Success
		})
	}
	all.Wait()
	close(won)
	for ok := range won {
		if ok {
			return
		}
	}
	b.t.Error("nobody could go on with it")
}

// A script has ended, and its result is being kept, or cannot be: it is not run
// again for that.
func TestAResultThatIsNotKeptYetIsNotRunAgain(t *testing.T) {
	for name, refused := range map[string]error{"kept slowly": nil, "not kept": &runtime.Error{Code: runtime.CodeStorageBusy, Msg: "busy"}} {
		b := newBench(t, story)
		slow := &slowStore{memory: b.store, refused: refused, let: make(chan struct{})}
		b.o.Store = slow
		f := &once{}
		b.o.Record = func(ctx context.Context, e sandbox.Event) error {
			if e.Kind == "exec.resume" && f.fails() {
				return &runtime.Error{Code: runtime.CodeAuditUnavailable, Msg: "the disk is full"}
			}
			return b.record(ctx, e)
		}
		b.restart("1:a")
		id := b.execute(sandbox.Script{Source: "x"}).ExecutionID
		b.decide("apr_1", nil)
		f.arm(1)
		if _, err := b.goOn(t.Context(), id); err == nil {
			t.Fatalf("%s: it went on", name)
		}
		end := b.resume(id, 0)
		b.resumeAtOnce(id)
		close(slow.let)
		b.runner.Dispose()
		again, err := b.goOn(t.Context(), id)
		if refused == nil && (err != nil || string(again.Value) != string(end.Value)) {
			t.Errorf("%s: %+v, %v", name, again, err)
		}
		if !end.Success || len(b.effects()) != 3 {
			t.Errorf("%s: %+v, made %v", name, end, b.effects())
		}
	}
}

// slowStore takes its time to keep a result, or refuses it then.
type slowStore struct {
	*memory
	refused error
	let     chan struct{}
}

func (s *slowStore) WriteExecution(ctx context.Context, e journal.Execution, calls []journal.Call) (bool, error) {
	if e.State == journal.Ended {
		select {
		case <-s.let:
		case <-time.After(10 * time.Second):
		}
		if s.refused != nil {
			return false, s.refused
		}
	}
	return s.memory.WriteExecution(ctx, e, calls)
}

// state puts an execution into a state, as a crash would leave it.
func (m *memory) state(id string, s journal.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row := m.rows[id]
	row.State = s
	m.rows[id] = row
}
