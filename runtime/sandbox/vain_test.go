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

// A question may be told to be closed, or allowed by a like yes, while its call is held back by it
// all the same. The call is tried once in each resumption; after that a decision is waited for.
func TestACallThatIsHeldBackAllTheSameIsTriedOnce(t *testing.T) {
	b := newBench(t, story)
	likes, waits := false, make(chan struct{}, 1)
	looks, tries := 0, 0
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		if looks++; wait != sandbox.Now {
			waits <- struct{}{}
		}
		if wait != sandbox.Decided && likes && looks < 100 { // so that it comes to an end in any case
			return false, nil
		}
		return b.approval(ctx, caller, who, id, wait)
	}
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		if call.Action.Risk == runtime.RiskHigh {
			tries++
		}
		return b.answer(ctx, call)
	}
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x"})
	likes = true
	for n := range 2 {
		if again := b.resume(got.ExecutionID, 0); again.Paused == nil || again.Paused.ApprovalID != "apr_1" || tries != n+2 {
			t.Fatalf("resumption %d: %+v, tried %d times", n+1, again, tries)
		}
	}
	go func() {
		<-waits
		b.decide("apr_1", nil)
	}()
	if end := b.resume(got.ExecutionID, time.Minute); !end.Success || len(b.effects()) != 3 || tries != 5 {
		t.Errorf("%+v, made %v, tried %d times", end, b.effects(), tries)
	}
}

// As little is it tried again and again while a timer keeps the script from being paused;
// that a person says no is heard.
func TestACallThatIsHeldBackAllTheSameIsTriedOnceBesideATimer(t *testing.T) {
	var looks, tries atomic.Int32
	b := newBench(t, func(m *machine) any {
		asked := m.call("notes.deleteNote", `{"id":1}`)
		for {
			if winner, r := m.first(asked, m.timer(1)); winner == asked {
				return r.Error.Code
			}
		}
	})
	b.o.Look = time.Millisecond
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		if looks.Add(1) > 10 {
			b.decide(id, &runtime.Error{Code: runtime.CodeApprovalRejected, Msg: "no"})
			return b.approval(ctx, caller, who, id, wait)
		}
		return false, nil
	}
	b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
		tries.Add(1)
		return b.answer(ctx, call)
	}
	b.restart("1:a")
	got := b.execute(sandbox.Script{Source: "x", Timeout: 20 * time.Second})
	if string(got.Value) != `"approval_rejected"` || tries.Load() != 2 {
		t.Errorf("%+v %s, tried %d times", got, got.Value, tries.Load())
	}
}

// Whoever waits for a question waits for what lets its call through, and only once that was in vain
// for a person's word about it.
func TestAScriptThatWaitsIsWokenByWhatAllowsItsCall(t *testing.T) {
	b := newBench(t, story)
	var waits []sandbox.Wait
	b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
		if wait != sandbox.Now {
			waits = append(waits, wait)
		}
		if wait == sandbox.Decided || len(waits) > 9 {
			b.decide(id, nil)
		}
		return len(waits) == 0, nil // the first wait ends by the like of it
	}
	b.restart("1:a")
	b.resume(b.execute(sandbox.Script{Source: "x"}).ExecutionID, time.Hour)
	if !slices.Equal(waits, []sandbox.Wait{sandbox.Closed, sandbox.Decided}) {
		t.Errorf("waited for %v", waits)
	}
}
