package workers

import (
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// What runs real workers is in internal/app (TestExec…); here is what goes wrong.

func TestWithoutAProgramThereIsNoCrew(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("it has nothing to start")
	}
	if StartAhead("", "") != nil {
		t.Error("nothing was started ahead")
	}
}

// Nobody need ask whether something was begun ahead.
func TestNothingAhead(t *testing.T) {
	var none *Ahead
	none.Stop()
	if none.take(worker.Options{}) != nil {
		t.Error("it has a worker")
	}
	none.FirstRoots("")
}

// A worker that could not be started ahead is started again, so that somebody is told why.
func TestWhatCouldNotBeStartedAheadIsToldOfByTheNext(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kimbap")
	ahead := StartAhead(missing, "")
	o := Options{Executable: missing, Heap: worker.Defaults().Heap, Ahead: ahead, Log: zerolog.Nop()}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Take(t.Context(), sandbox.Limits{}); err == nil {
		t.Error("a program that is not there has started")
	}
	if !ahead.used.Load() {
		t.Error("what was begun ahead was not asked for")
	}
	ahead.Stop()
}

// One that was started with other settings than the configuration has runs no script.
func TestAnotherHeapThanAheadTakesAnotherWorker(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kimbap")
	ahead := StartAhead(missing, "")
	defer ahead.Stop()
	if ahead.take(Options{Executable: missing, Heap: 1}.of()) != nil || ahead.used.Load() {
		t.Error("it was taken")
	}
}
