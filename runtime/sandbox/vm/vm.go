// Package vm runs a script that the gate let pass, in a JavaScript engine that has
// nothing but the language, and tools.
//
// What goes in and out is text: JSON that one side wrote and the other reads. No value,
// function or error of Go enters the engine, since goja shows a script the fields and
// methods of what it is given; natives are plain functions with a name of ours, errors
// are rebuilt from words. What could compile text to code is gone, as is the global
// object. See [harden].
//
// One goroutine owns the engine, the one that calls [Engine.Run]. It runs the script
// until nothing moves, says Idle, takes one reply, and runs on. Timers are calls that the
// host answers, the clock moves only with replies, and Math.random starts from a seed: so
// the replies, in their order, are all that a run depends on, and the same replies
// give the same run.
//
// What the engine cannot stop, a native loop or an allocation, the worker process
// around it ends.
//
// Start reading at [Engine.Run].
package vm

import (
	"context"
	"sync"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// Engine runs scripts.
type Engine interface {
	// Run runs one script to its end. Every ending is told by what it returns, also
	// that the context ended: timeout when its deadline passed, interrupted otherwise.
	// It may be used by several goroutines at once; each run is on its own.
	Run(ctx context.Context, p *gate.Program, run frame.Run, host Host) frame.Done
}

// Host is the other end of a run. Its methods are called by one goroutine, the one
// that runs the script, and must not call back.
type Host interface {
	// Call makes a call. It must not wait for its end: that is a reply.
	Call(frame.Call)
	// Log takes one message of console.
	Log(frame.Log)
	// Idle says that the script waits for these calls.
	Idle(frame.Idle)
	// Replies gives the replies, in the order in which they are to settle calls. When
	// the channel is closed, the run ends as interrupted.
	Replies() <-chan frame.Reply
}

// Ahead is an engine that can build the world of its next run before the script is
// there.
type Ahead interface {
	Engine
	// Prepare builds that world. It may be called by another goroutine than Run, and
	// does nothing where there is one already.
	Prepare()
}

// New is the engine on goja.
func New() Ahead {
	return &engine{next: sync.OnceValue(newWorld)}
}

type engine struct {
	mu   sync.Mutex
	next func() *script // the world of the next run, built when it is first asked for; nil: there is none
}

var _ Ahead = (*engine)(nil)

// Prepare implements [Ahead].
func (e *engine) Prepare() {
	e.mu.Lock()
	if e.next == nil {
		e.next = sync.OnceValue(newWorld)
	}
	next := e.next
	e.mu.Unlock()
	next()
}

// world is one that no run has had.
func (e *engine) world() *script {
	e.mu.Lock()
	next := e.next
	e.next = nil
	e.mu.Unlock()
	if next == nil {
		return newWorld()
	}
	return next()
}

// Run implements [Engine].
func (e *engine) Run(ctx context.Context, p *gate.Program, run frame.Run, host Host) (done frame.Done) {
	s := e.world()
	s.adopt(p, run, host)
	defer func() {
		if broken := recover(); broken != nil {
			done = s.ending(broken)
		}
	}()
	s.watch(ctx)
	defer s.unwatch()
	s.furnish()
	return s.run(ctx)
}
