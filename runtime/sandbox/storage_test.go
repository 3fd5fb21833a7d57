package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// small bounds what is kept: 250,000 bytes of one caller, and scripts of at most 40,000.
func (b *bench) small() {
	b.o.Limits.Traffic, b.o.Limits.Result, b.o.Limits.Argument, b.o.Stored = 40_000, 20_000, 20_000, 1_000_000
	b.restart("1:a")
}

// try begins a script as somebody.
func (b *bench) try(who string) (sandbox.Result, error) {
	return b.runner.Execute(b.t.Context(), sandbox.Script{Source: "x", Caller: runtime.Caller{Token: runtime.NewSecret(who)}})
}

// put keeps an execution of so many bytes, as one that somebody had before.
func (b *bench) put(id, who string, state journal.State, size int) {
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	b.store.rows[id] = journal.Execution{
		ID: id, Tenant: runtime.DefaultTenant, Principal: "token:" + who, State: state, Holder: "1:a", Script: make([]byte, size),
		Expires: b.clock.Add(time.Hour),
	}
}

// full holds an error to what it is to say.
func full(t *testing.T, err error, whose string) {
	t.Helper()
	e := (*runtime.Error)(nil)
	if !errors.As(err, &e) || e.Code != runtime.CodeRateLimited || !strings.Contains(e.Msg, whose+" that run or wait for a person fill") || !strings.Contains(e.Hint, "kimbap approve list") {
		t.Errorf("%+v", err)
	}
}

// Scripts that wait for people are kept, up to a caller's share: one more is refused before
// anything of it is done, and can begin once one of those has ended.
func TestOneCallersScriptsHaveTheirShareOfTheDisk(t *testing.T) {
	var question atomic.Int64
	b := newBench(t, func(m *machine) any {
		m.do("notes.createNote", filled(15_000))
		return m.do("notes.deleteNote", fmt.Sprintf(`{"id":%d}`, question.Add(1)))
	})
	b.small()
	var waiting []string
	for {
		got, err := b.try("greedy")
		if err != nil {
			full(t, err, "this caller")
			break
		}
		if waiting = append(waiting, got.ExecutionID); got.Paused == nil || len(waiting) > 8 {
			t.Fatalf("%d scripts, %q", len(waiting), got.Error)
		}
	}
	if len(waiting) < 5 || len(b.effects()) != len(waiting) {
		t.Errorf("%d scripts wait, with %d effects", len(waiting), len(b.effects()))
	}
	if got, err := b.try("other"); err != nil || got.Paused == nil {
		t.Errorf("another: %q %v", got.Error, err)
	}
	b.decide("apr_1", nil)
	done, err := b.runner.Resume(t.Context(), sandbox.Resumption{ID: waiting[0], Caller: runtime.Caller{Token: runtime.NewSecret("greedy")}})
	if err != nil || !done.Success {
		t.Fatalf("%q %v", done.Error, err)
	}
	b.runner.Dispose() // its end is kept then
	b.restart("1:a")
	if got, err := b.try("greedy"); err != nil || got.Paused == nil {
		t.Errorf("after one has ended: %q %v", got.Error, err)
	}
	for _, id := range waiting[1:] {
		if state := b.store.stateOf(id); state != journal.Paused {
			t.Errorf("a script that waits is %q", state)
		}
	}
}

// What has ended makes room, the oldest first, and no more of it than is needed.
func TestScriptsThatHaveEndedMakeRoom(t *testing.T) {
	b := newBench(t, func(m *machine) any { m.do("notes.createNote", filled(15_000)); return "done" })
	b.small()
	b.put("exe_waits", "me", journal.Paused, 100_000)
	var ids []string
	for range 12 {
		b.clock = b.clock.Add(time.Second)
		ids = append(ids, b.execute(sandbox.Script{Source: "x"}).ExecutionID)
		b.runner.Dispose()
		b.restart("1:a")
	}
	kept := 0
	for i, id := range ids {
		state := b.store.stateOf(id)
		if state == journal.Ended {
			kept++
		} else if kept > 0 {
			t.Errorf("script %d is gone, and older ones are kept", i)
		}
	}
	if own, _, _ := b.store.ExecutionBytes(t.Context(), runtime.DefaultTenant, "token:me"); own > 250_000 || kept < 3 || kept == len(ids) || b.store.stateOf("exe_waits") == "" {
		t.Errorf("%d bytes are kept, and %d of %d scripts", own, kept, len(ids))
	}
	_, err := b.runner.Status(t.Context(), runtime.Caller{Token: runtime.NewSecret("me")}, ids[0])
	if e := (*runtime.Error)(nil); !errors.As(err, &e) || e.Reason != runtime.ReasonNotFound || !strings.Contains(e.Hint, "need the room") {
		t.Errorf("%+v", err)
	}
}

// A script that grows where there is no room left ends, and says why, whether it goes on
// or would wait for a person.
func TestAScriptThatFindsNoMoreRoomEnds(t *testing.T) {
	for name, last := range map[string]func(m *machine) any{
		"goes on": func(m *machine) any { return m.await(m.timer(60_000)) },
		"asks":    func(m *machine) any { return m.do("notes.deleteNote", `{"id":1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			b = newBench(t, func(m *machine) any {
				b.put("exe_waits", "me", journal.Paused, 250_001)
				m.do("notes.createNote", filled(15_000))
				return last(m)
			})
			b.small()
			got := b.execute(sandbox.Script{Source: "x"})
			if got.Kind != frame.KindInterrupted || !strings.Contains(got.Error, "no room on disk") || !strings.Contains(got.Error, "kimbap approve list") {
				t.Errorf("%s: %s", got.Kind, got.Error)
			}
			if len(got.Calls) == 0 || got.Calls[0].Status != sandbox.CallOK || b.store.stateOf("exe_waits") != journal.Paused {
				t.Errorf("%d calls", len(got.Calls))
			}
		})
	}
}

// A crowd leaves the last quarter to those of whom little is kept; what makes room of the
// others' is of who has most.
func TestACrowdLeavesRoomOnDiskForOthers(t *testing.T) {
	b := newBench(t, func(m *machine) any { m.do("notes.createNote", `{}`); return "done" })
	b.small()
	for n := range 4 {
		b.put(fmt.Sprint("exe_", n), fmt.Sprint("greedy-", n), journal.Paused, 180_000)
	}
	b.put("exe_mine", "middling", journal.Paused, 45_000)
	_, err := b.try("middling")
	full(t, err, "all callers")
	if got, err := b.try("little"); err != nil || !got.Success {
		t.Errorf("%q %v", got.Error, err)
	}
	b.runner.Dispose()
	b.restart("1:a")
	b.put("exe_0", "greedy-0", journal.Ended, 180_000)
	if got, err := b.try("middling"); err != nil || !got.Success || b.store.stateOf("exe_0") != "" {
		t.Errorf("%q %v, the oldest is %q", got.Error, err, b.store.stateOf("exe_0"))
	}
}

// slow is a store that is asked for room a second time and answers late.
type slow struct {
	*memory
	asked   atomic.Int32
	looking chan struct{} // closed when it is asked
	answer  chan struct{} // closed when it may answer
}

func (s *slow) ExecutionBytes(ctx context.Context, tenant runtime.Tenant, principal string) (own, all int64, err error) {
	if s.asked.Add(1) == 2 {
		close(s.looking)
		<-s.answer
	}
	return s.memory.ExecutionBytes(ctx, tenant, principal)
}

// So does one that asks a person while that is found out.
func TestAScriptThatAsksWhileRoomIsLookedForEnds(t *testing.T) {
	store := &slow{looking: make(chan struct{}), answer: make(chan struct{})}
	var b *bench
	b = newBench(t, func(m *machine) any {
		b.put("exe_waits", "me", journal.Paused, 250_001)
		m.do("notes.createNote", filled(15_000))
		<-store.looking
		return m.do("notes.deleteNote", `{"id":1}`)
	})
	store.memory = b.store
	b.o.Store, b.o.Record = store, func(ctx context.Context, e sandbox.Event) error {
		if e.Kind == "exec.pause" {
			close(store.answer)
		}
		return b.record(ctx, e)
	}
	b.small()
	if got := b.execute(sandbox.Script{Source: "x"}); got.Kind != frame.KindInterrupted || !strings.Contains(got.Error, "no room on disk") {
		t.Errorf("%s: %s", got.Kind, got.Error)
	}
}
