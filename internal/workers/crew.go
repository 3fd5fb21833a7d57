// Package workers has the processes that run scripts: for a command the one that it began
// before it knew its configuration ([StartAhead]), for what serves a few that are kept ready.
//
// It knows nothing of scripts. What a worker is and what holds it says package
// runtime/sandbox/worker; it never gives out a process that another script has had.
//
// Start reading at [Crew.Take].
package workers

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// idle is how long after a script others are kept ready. Most proxies never run one,
// and a process that waits takes some 4 MiB of its own.
const idle = 10 * time.Minute

// Options say what a Crew starts. Executable is required.
type Options struct {
	Executable string        // this program's own file
	CPU        time.Duration // of the processors that a script may use; 0: 10 s
	Heap       int64         // bytes that a script may use
	Kept       int           // processes that are kept ready once the first script has come; 0: none
	Ahead      *Ahead        // gives out its worker first; may be nil
	Log        zerolog.Logger
}

// of is what a worker is started with.
func (o Options) of() worker.Options {
	w := worker.Options{Executable: o.Executable, Settings: worker.Defaults()}
	w.Settings.CPU, w.Settings.Heap = cmp.Or(o.CPU, w.Settings.CPU), o.Heap
	return w
}

// Level starts a worker and says what holds it on this system.
func Level(o Options) (frame.Level, error) { return worker.Level(o.of()) }

// Crew gives out processes for scripts. It is safe for concurrent use; Close is called once,
// at the end.
type Crew struct {
	o    Options
	pool *worker.Pool // nil: none is kept
}

// New makes a Crew and starts nothing: the first script does.
func New(o Options) (*Crew, error) {
	if o.Executable == "" {
		return nil, errors.New("workers: Options.Executable is missing: there is nothing to start scripts with")
	}
	if o.Kept == 0 {
		return &Crew{o: o}, nil
	}
	pool, err := worker.NewPool(worker.PoolOptions{Options: o.of(), Size: o.Kept, Idle: idle})
	if err != nil {
		return nil, err
	}
	return &Crew{o, pool}, nil
}

// Close ends the processes that wait. Those that were given out are their takers' to end.
func (c *Crew) Close() {
	if c.pool != nil {
		c.pool.Close()
	}
}

// Take gives out a process for one script, for [sandbox.Options].
func (c *Crew) Take(context.Context, sandbox.Limits) (sandbox.Worker, error) {
	w, err := c.o.Ahead.take(c.o.of()), error(nil)
	switch {
	case w != nil:
	case c.pool != nil:
		w, err = c.pool.Take()
	default:
		w, err = worker.Start(c.o.of())
	}
	if err != nil {
		return nil, err
	}
	return process{w, c.o.Log}, nil
}

// process is a worker as the sandbox wants one.
type process struct {
	*worker.Process
	log zerolog.Logger
}

var _ sandbox.Worker = process{}

// Kill implements [sandbox.Worker].
func (p process) Kill() {
	p.Process.Kill()
	if ending := p.Wait(); ending.Violation || ending.Detail != "" && ending.Kind == frame.KindInterrupted {
		p.log.Warn().Str("detail", ending.Detail).Bool("violation", ending.Violation).Msg("script worker ended")
	}
}

// Ended implements [sandbox.Worker].
func (p process) Ended() (frame.Failure, error) {
	if err := p.Ready(); err != nil {
		return frame.Failure{}, err
	}
	return p.Process.Ended(), nil
}
