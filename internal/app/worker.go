package app

import (
	"context"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/certs"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// scripts is what an App has for script mode.
type scripts struct {
	sync.Mutex
	runner *sandbox.Runner // nil: not asked for yet
	pool   *worker.Pool    // of a process that serves: some are kept warm
}

// Ahead is what was begun before it is known what the configuration says: the start of
// a worker, which takes as long as the opening of a home, and the reading of the
// system's roots. The worker runs one script at most, and must be stopped at the end.
type Ahead struct {
	roots   func() *x509.CertPool // see [certs.FirstRoots]
	file    string                // that they are read from, "" for the system's
	options worker.Options
	started chan struct{} // closed when w and err are there
	w       *worker.Process
	err     error
	used    atomic.Bool
}

// StartAhead starts a worker with the settings that a configuration has unless it
// says otherwise, and returns at once. Executable is a kimbap; "" starts nothing. Env is
// that of the process.
func StartAhead(executable string, env []string) *Ahead {
	if executable == "" {
		return nil
	}
	h := &Ahead{
		options: worker.Options{Executable: executable, Settings: worker.Defaults()}, started: make(chan struct{}),
		file: outfit.NewEnvironment(env)["SSL_CERT_FILE"],
	}
	h.roots = sync.OnceValue(func() *x509.CertPool { return certs.FirstRoots(h.file) })
	go func() {
		h.w, h.err = worker.Start(h.options)
		close(h.started)
		go h.roots() // behind the start, which takes longer and is waited for
		if h.err == nil {
			_ = h.w.Ready() // one that nobody listens to is ended soon, and a script may be long in coming
		}
	}()
	return h
}

// firstRoots are those that a process with this SSL_CERT_FILE tries first.
func (h *Ahead) firstRoots(file string) func() *x509.CertPool {
	if h != nil && h.file == file {
		return h.roots
	}
	return func() *x509.CertPool { return certs.FirstRoots(file) }
}

// take gives the worker out, nil when it cannot be had or was started with other
// settings than these.
func (h *Ahead) take(o worker.Options) *worker.Process {
	if h == nil || o != h.options || h.used.Swap(true) {
		return nil
	}
	<-h.started
	if h.err != nil {
		return nil // who starts another one is told why
	}
	select {
	case <-h.w.Gone():
		h.w.Kill()
		return nil
	default:
		return h.w
	}
}

// Stop ends the worker if nobody has taken it. Nil has none.
func (h *Ahead) Stop() {
	if h == nil || h.used.Swap(true) {
		return
	}
	if <-h.started; h.err == nil {
		h.w.Kill()
	}
}

func (a *App) workerOptions() worker.Options {
	o := worker.Options{Executable: a.o.Executable, Settings: worker.Defaults()}
	o.Settings.Heap = int64(a.config.Current().Exec.Heap)
	return o
}

// scriptsIdle is how long after a script others are kept ready. Most proxies
// never run one, and a process that waits takes some 4 MiB of its own.
const scriptsIdle = 10 * time.Minute

// startWorkers makes the pool of a process that serves. The first script fills it.
func (a *App) startWorkers() error {
	if a.o.Executable == "" {
		return errors.New("app: Options.Executable is missing: there is nothing to start scripts with")
	}
	if a.o.Slot == "" {
		return nil
	}
	pool, err := worker.NewPool(worker.PoolOptions{Options: a.workerOptions(), Size: min(a.config.Current().Exec.Workers, 2), Idle: scriptsIdle})
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
	pool := a.scripts.pool
	a.scripts.Unlock()
	w, err := a.o.Ahead.take(a.workerOptions()), error(nil)
	switch {
	case w != nil:
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
