package sandbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
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

// waitFor returns when a condition holds; it fails the test when it never does.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
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
	waitFor(t, "all wait", func() bool { return b.pauses() == scripts })
	waitFor(t, "at most two processes", func() bool { return living.Load() <= 2 })
	stop()
	ended.Wait()
}
