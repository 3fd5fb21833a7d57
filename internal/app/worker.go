package app

import (
	"context"
	"errors"
	"sync"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// scripts is what an App has for script mode.
type scripts struct {
	sync.Mutex
	runner *sandbox.Runner // nil: not asked for yet
	early  chan early      // of a command: the one worker, started before the home is open
	pool   *worker.Pool    // of a process that serves: some are kept warm
}

// early is a worker that was started ahead.
type early struct {
	w   *worker.Process
	err error
}

func (a *App) workerOptions() worker.Options {
	return worker.Options{
		Executable: a.o.Executable,
		Settings:   worker.Settings{Heap: int64(a.config.Exec.Heap)},
	}
}

// startEarly starts the worker of the one script that the command is for, while
// the home is being opened.
func (a *App) startEarly() {
	if !a.o.Script || a.o.Executable == "" {
		return
	}
	ahead := make(chan early, 1)
	a.scripts.early = ahead
	go func() {
		w, err := worker.Start(a.workerOptions())
		ahead <- early{w, err}
	}()
	a.onClose(func(context.Context) error {
		a.scripts.Lock()
		unused := a.scripts.early
		a.scripts.early = nil
		a.scripts.Unlock()
		if unused != nil {
			if got := <-unused; got.err == nil {
				got.w.Kill()
			}
		}
		return nil
	})
}

// startWorkers makes the pool of a process that serves.
func (a *App) startWorkers() error {
	if a.o.Executable == "" {
		return errors.New("app: Options.Executable is missing: there is nothing to start scripts with")
	}
	if a.o.Slot == "" {
		return nil
	}
	pool, err := worker.NewPool(worker.PoolOptions{Options: a.workerOptions(), Size: min(a.config.Exec.Workers, 2)})
	if err != nil {
		return err
	}
	a.scripts.pool = pool
	a.onClose(func(context.Context) error { pool.Close(); return nil })
	return nil
}

// takeWorker gives out a process for one script.
func (a *App) takeWorker(context.Context, sandbox.Limits) (sandbox.Worker, error) {
	a.scripts.Lock()
	ahead := a.scripts.early
	a.scripts.early = nil
	pool := a.scripts.pool
	a.scripts.Unlock()
	var w *worker.Process
	var err error
	switch {
	case ahead != nil:
		got := <-ahead
		w, err = got.w, got.err
	case pool != nil:
		w, err = pool.Take()
	default:
		w, err = worker.Start(a.workerOptions())
	}
	if err != nil {
		return nil, err
	}
	return process{w, a}, nil
}

// process is a worker as the sandbox wants one.
type process struct {
	*worker.Process
	a *App
}

var _ sandbox.Worker = process{}

// Kill implements [sandbox.Worker].
func (p process) Kill() {
	p.Process.Kill()
	if ending := p.Wait(); ending.Violation || ending.Detail != "" && ending.Kind == frame.KindInterrupted {
		p.a.o.Log.Warn().Str("detail", ending.Detail).Bool("violation", ending.Violation).Msg("script worker ended")
	}
}

// Ended implements [sandbox.Worker].
func (p process) Ended() (frame.Failure, error) {
	if err := p.Ready(); err != nil {
		return frame.Failure{}, err
	}
	return p.Process.Ended(), nil
}
