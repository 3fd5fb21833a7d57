package worker_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// pool is closed with the test.
func pool(t *testing.T, size int, idle time.Duration) *worker.Pool {
	t.Helper()
	p, err := worker.NewPool(worker.PoolOptions{Options: worker.Options{Executable: programs.puppet}, Size: size, Idle: idle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// holds waits until so many workers wait in the pool.
func holds(t *testing.T, p *worker.Pool, want int) {
	t.Helper()
	runtimetest.Eventually(t, fmt.Sprintf("%d workers are ready", want), func() bool { return p.Ready() == want })
}

// use runs one script in a worker of the pool and tells whose process it was.
func use(t *testing.T, p *worker.Pool) int {
	t.Helper()
	w, err := p.Take()
	if err != nil {
		t.Error(err)
		return 0
	}
	defer w.Kill()
	if said, err := run(t, w, "value 7"); err != nil || said[len(said)-1].Done.Value != "7" {
		t.Errorf("it said %+v, %v", said, err)
	}
	return w.Pid()
}

func TestAPoolGivesEachScriptAProcessOfItsOwn(t *testing.T) {
	p := pool(t, 2, 0)
	if p.Ready() != 0 {
		t.Error("a pool that nobody used has workers")
	}
	var mu sync.Mutex
	seen := map[int]bool{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				pid := use(t, p)
				mu.Lock()
				if seen[pid] {
					t.Errorf("process %d had two scripts", pid)
				}
				seen[pid] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	holds(t, p, 2)
}

func TestAPoolGivesOutWhatIsReady(t *testing.T) {
	p := pool(t, 1, 0)
	p.Warm()
	p.Warm()
	holds(t, p, 1)
	w, err := p.Take()
	if err != nil || p.Ready() != 0 {
		t.Fatalf("%v; %d are ready, want the one given out", err, p.Ready())
	}
	defer w.Kill()
	holds(t, p, 1) // its successor, although it has not ended
}

func TestAPoolPassesOverWorkersThatEnded(t *testing.T) {
	p := pool(t, 1, 0)
	p.Warm()
	holds(t, p, 1)
	w, err := p.Take()
	if err != nil {
		t.Fatal(err)
	}
	w.Kill()
	holds(t, p, 1)
	p.EndWarm()
	use(t, p)
}

func TestAnIdlePoolDropsItsWorkers(t *testing.T) {
	p := pool(t, 2, 2*time.Second) // in which a busy machine lets somebody look
	p.Warm()
	holds(t, p, 2)
	holds(t, p, 0)
	use(t, p)
	holds(t, p, 2)
}

// So it does with those whose start takes longer than that.
func TestAnIdlePoolDropsWorkersThatWereSlow(t *testing.T) {
	p := pool(t, 2, time.Millisecond)
	p.Warm()
	runtimetest.Eventually(t, "all that were started are dropped", p.Empty)
}

func TestAClosedPoolGivesOutNothing(t *testing.T) {
	p := pool(t, 2, time.Hour)
	p.Warm()
	p.Close()
	p.Close()
	p.Warm()
	if w, err := p.Take(); !errors.Is(err, worker.ErrClosed) || w != nil || p.Ready() != 0 {
		t.Errorf("got %v, %v, %d ready", w, err, p.Ready())
	}
}

func TestAPoolWithoutWorkersSaysWhy(t *testing.T) {
	for _, o := range []worker.PoolOptions{{Size: 1}, {Options: worker.Options{Executable: programs.puppet}}} {
		if _, err := worker.NewPool(o); err == nil {
			t.Errorf("%+v made a pool", o)
		}
	}
	p, err := worker.NewPool(worker.PoolOptions{Options: worker.Options{Executable: "/no/such/file"}, Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.Warm()
	if _, err := p.Take(); err == nil {
		t.Error("a worker that cannot be started was given out")
	}
}
