package sandbox_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// closing is a store that counts the calls that come with an end.
type closing struct {
	*memory
	ends, calls atomic.Int64
}

func (c *closing) WriteExecution(ctx context.Context, e journal.Execution, calls []journal.Call) (bool, error) {
	if e.State == journal.Ended {
		c.ends.Add(1)
		c.calls.Add(int64(len(calls)))
	}
	return c.memory.WriteExecution(ctx, e, calls)
}

// What has ended is not repeated, so its calls are not written with its end: a script may
// set thousands of timers, and all others wait for the transaction.
func TestAnEndIsWrittenWithoutCalls(t *testing.T) {
	b := newBench(t, func(m *machine) any { return m.timers(1000) })
	store := &closing{memory: b.store}
	b.o.Store = store
	b.restart("1:a")
	if got := b.execute(sandbox.Script{Source: "x"}); !got.Success {
		t.Fatalf("%+v", got)
	}
	b.runner.Dispose()
	if store.ends.Load() != 1 || store.calls.Load() > 0 {
		t.Errorf("%d ends, with %d calls", store.ends.Load(), store.calls.Load())
	}
}
