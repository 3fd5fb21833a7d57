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

// What a worker calls a call counts as what it gives it: it is not believed.
func TestTheKindOfACallCounts(t *testing.T) {
	b := newBench(t, func(m *machine) any {
		for range 20 {
			m.seq++
			m.say(&frame.ToHost{Call: &frame.Call{Seq: m.seq, Kind: frame.CallKind(strings.Repeat("k", 40_000))}})
			m.await(m.seq)
		}
		return "done"
	})
	b.o.Limits.Traffic = 100_000
	b.restart("1:a")
	if got := b.execute(sandbox.Script{Source: "x"}); got.Kind != frame.KindCalls {
		t.Errorf("20 calls of 40,000 bytes each: %+v", got)
	}
}

// timers sets so many, and waits for the last.
func (m *machine) timers(n int) any {
	last := 0
	for range n {
		last = m.timer(0)
	}
	return m.await(last)
}

// Two scripts of one's own with more calls than one may have in memory do not both wait for
// a person, whatever the calls consist of, and as little after they were read back.
func TestWhateverCallsConsistOfCounts(t *testing.T) {
	for name, calls := range map[string]program{
		"names": func(m *machine) any {
			for range 60 {
				m.do(strings.Repeat("p", 1000), `{}`)
			}
			return nil
		},
		"timers": func(m *machine) any { return m.timers(200) },
		"errors": func(m *machine) any { return m.do("notes.createNote", `{}`) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(m *machine) any {
				calls(m)
				return m.do("notes.deleteNote", fmt.Sprintf(`{"id":%d}`, m.seed>>12))
			})
			usual := b.o.Invoke
			b.o.Invoke = func(ctx context.Context, call sandbox.Invocation) sandbox.Answer {
				if name == "errors" && call.Ref == "notes.create-note" {
					return sandbox.Answer{Err: &runtime.Error{Code: runtime.CodeUpstream, Msg: strings.Repeat("e", 60_000)}}
				}
				return usual(ctx, call)
			}
			waits := make(chan struct{})
			b.o.Approval = func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait sandbox.Wait) (bool, error) {
				if wait != sandbox.Now {
					waits <- struct{}{}
				}
				return b.approval(ctx, caller, who, id, wait)
			}
			b.o.Limits.Traffic = 100_000
			b.restart("1:a")
			me := runtime.Caller{Token: runtime.NewSecret("me")}
			execute := func(wait time.Duration) sandbox.Result {
				got, err := b.runner.Execute(t.Context(), sandbox.Script{Source: "x", Wait: wait, Caller: me})
				if err != nil {
					t.Error(err)
				}
				return got
			}
			first := make(chan sandbox.Result, 1)
			go func() { first <- execute(time.Minute) }()
			<-waits
			ended := make(chan sandbox.Result, 1)
			go func() { ended <- execute(time.Minute) }()
			var second sandbox.Result
			select {
			case <-waits:
				t.Fatal("two wait in memory")
			case second = <-ended:
			}
			b.runner.Dispose() // of the second's worker
			go func() { ended <- b.resume(second.ExecutionID, time.Minute) }()
			select {
			case <-waits:
				t.Fatal("two wait in memory, of which one was read back")
			case <-ended:
			}
			for question := range 2 {
				b.decide(fmt.Sprint("apr_", question+1), nil)
			}
			if got := <-first; !got.Success {
				t.Errorf("%+v", got)
			}
		})
	}
}
