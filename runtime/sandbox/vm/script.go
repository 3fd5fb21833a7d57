package vm

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dop251/goja"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/gate"
)

// script is one run of a program. One goroutine owns it.
type script struct {
	rt      *goja.Runtime
	program *gate.Program
	limits  frame.Limits
	host    Host
	now     int64 // milliseconds since 1970

	unwatch func()
	stopped *stop // the limit that ended the run

	seq     int
	heard   int // replies
	waiting map[int]*call
	queue   []queued // calls that wait for others to end
	flying  []int    // calls other than timers that the host has, in their order
	calls   int      // of tools, made so far
	timers  map[int]*timer
	alarms  int // timers, made so far
	ticking int // timers that the host has, but for those that were cleared

	logged int  // bytes
	cut    bool // messages were dropped

	showing []*goja.Object // the Maps and Sets inside each other that are being shown

	mark    *goja.Symbol // of the targets of tools: no script can reach it
	each    direct       // what [gate.Each] names
	json    codec
	apply   direct       // of Reflect
	then    direct       // of promises, goja's own
	settled *goja.Object // a promise that is fulfilled
	errors  errorsOf
	lost    []*goja.Promise // rejected, and nobody has looked at it
}

// call is one that has no reply yet.
type call struct {
	kind    frame.CallKind
	path    string
	place   place
	timer   *timer
	resolve func(any) error
	reject  func(any) error
}

// place is a line and a column of the source.
type place struct{ line, column int }

// stop is a limit that was reached. It ends the script; no catch sees it.
type stop struct {
	kind    frame.Kind
	message string
}

// newWorld is all of a run that does not depend on the script.
func newWorld() *script {
	s := &script{
		rt: goja.New(), waiting: map[int]*call{}, timers: map[int]*timer{}, mark: goja.NewSymbol("tools"),
	}
	s.rt.SetTimeSource(func() time.Time { return time.UnixMilli(s.now) })
	s.rt.SetPromiseRejectionTracker(s.track)
	s.apply = s.builtIn(s.global("Reflect"), "apply")
	s.harden()
	s.coverErrors()
	s.coverPromises()
	s.coverRegExp()
	s.coverFaults()
	s.mend()
	s.coverIterators()
	s.boundTexts()
	s.makeCodec()
	s.makeToolError()
	s.makeTools()
	return s
}

// adopt makes the world that of one run.
func (s *script) adopt(p *gate.Program, run frame.Run, host Host) {
	s.program, s.limits, s.host, s.now = p, run.Limits, host, run.Now
	s.rt.SetRandSource(rand.New(rand.NewPCG(run.Seed, 0x6b696d626170)).Float64)
	if run.Limits.Stack > 0 {
		s.rt.SetMaxCallStackSize(run.Limits.Stack)
	}
}

// watch stops the script when a context ends.
func (s *script) watch(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { s.rt.Interrupt(stopOf(ctx)) })
	s.unwatch = func() { stop() }
}

func stopOf(ctx context.Context) *stop {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &stop{frame.KindTimeout, "The script ran too long"}
	}
	return &stop{frame.KindInterrupted, "The script was stopped"}
}

// halt ends the script for a limit. What a native function does after it is
// thrown away.
func (s *script) halt(kind frame.Kind, message string) {
	if s.stopped == nil {
		s.stopped = &stop{kind, message}
	}
	s.rt.Interrupt(s.stopped)
}

// run calls the script and takes replies until it has ended.
func (s *script) run(ctx context.Context) frame.Done {
	value, err := s.rt.RunProgram(s.program.Code)
	if err != nil {
		return s.failed(err)
	}
	start, ok := goja.AssertFunction(value)
	if !ok {
		return s.finish(&frame.Failure{Kind: frame.KindRejected, Message: "The program is no function"})
	}
	value, err = start(goja.Undefined())
	if err != nil {
		return s.failed(err)
	}
	promise, ok := value.Export().(*goja.Promise)
	if !ok {
		return s.finish(&frame.Failure{Kind: frame.KindRejected, Message: "The program is no async function"})
	}
	return s.loop(ctx, promise)
}

// loop settles one call after the other until the script's own promise is settled.
func (s *script) loop(ctx context.Context, promise *goja.Promise) frame.Done {
	for promise.State() == goja.PromiseStatePending {
		if s.stopped != nil {
			return s.stop(s.stopped)
		}
		if len(s.flying)+s.ticking == 0 {
			return s.finish(&frame.Failure{Kind: frame.KindDeadlock, Message: "The script waits for a promise that nothing can settle"})
		}
		reply, ok := s.take(ctx)
		if !ok {
			return s.stop(stopOf(ctx))
		}
		if err := s.settle(reply); err != nil {
			return s.failed(err)
		}
	}
	if s.stopped != nil {
		return s.stop(s.stopped)
	}
	if promise.State() == goja.PromiseStateRejected {
		return s.finish(s.thrown(promise.Result()))
	}
	return s.result(promise.Result())
}

// take is the next reply. It says Idle only when there is none yet.
func (s *script) take(ctx context.Context) (frame.Reply, bool) {
	replies := s.host.Replies()
	select {
	case reply, ok := <-replies:
		return reply, ok && ctx.Err() == nil
	default:
	}
	s.host.Idle(frame.Idle{Waiting: slices.Clone(s.flying), Timers: s.ticking > 0, Heard: s.heard})
	select {
	case reply, ok := <-replies:
		return reply, ok
	case <-ctx.Done():
		return frame.Reply{}, false
	}
}

// settle ends one call, and runs all that waited for it.
func (s *script) settle(r frame.Reply) error {
	s.now = max(s.now, r.Now)
	c := s.waiting[r.Seq]
	if c == nil {
		return errUnknownReply
	}
	delete(s.waiting, r.Seq)
	s.heard++
	if c.timer != nil {
		return s.ring(c.timer)
	}
	s.flying = slices.DeleteFunc(s.flying, func(seq int) bool { return seq == r.Seq })
	s.send()
	if r.Error != nil {
		return c.reject(s.toolError(*r.Error, c.place))
	}
	value, err := s.parse(r.Value)
	if errors.Is(err, errTooDeep) {
		return c.reject(s.toolError(frame.ToolError{
			Tool: c.path, Code: "upstream", Message: "The answer nests too deep for a script; it was done: do not send it again for that",
		}, c.place))
	}
	if err != nil {
		return c.reject(s.toolError(frame.ToolError{Tool: c.path, Code: "internal", Message: "The answer is no JSON"}, c.place))
	}
	return c.resolve(value)
}

var errUnknownReply = errors.New("a reply to no call")

// begin numbers a call and gives it to the host, or lets it wait for others to end.
// A timer never waits.
func (s *script) begin(c *call, kind frame.CallKind, path, args string) int {
	c.kind, c.path, c.place = kind, path, s.place()
	message := frame.Call{Kind: kind, Path: path, Args: args, Line: c.place.line}
	if kind == frame.CallTimer {
		return s.make(c, message)
	}
	s.queue = append(s.queue, queued{c, message})
	s.send()
	return s.seq
}

// queued is a call that waits for others to end.
type queued struct {
	call    *call
	message frame.Call
}

// make gives a call to the host. Calls are numbered here, so that the host gets
// their numbers in order although timers overtake calls that wait.
func (s *script) make(c *call, message frame.Call) int {
	s.seq++
	message.Seq = s.seq
	s.waiting[s.seq] = c
	s.host.Call(message)
	return s.seq
}

// send gives the host as many calls as it takes at once.
func (s *script) send() {
	for len(s.queue) > 0 && (s.limits.InFlight <= 0 || len(s.flying) < s.limits.InFlight) {
		next := s.queue[0]
		s.queue = s.queue[1:]
		s.flying = append(s.flying, s.make(next.call, next.message))
	}
}

// place is where the script is, in its source.
func (s *script) place() place {
	for _, f := range s.rt.CaptureCallStack(16, nil) {
		if f.SrcName() == gate.FileName {
			at := f.Position()
			line, column := s.program.Place(at.Line, at.Column)
			if line > 0 {
				return place{line, column}
			}
		}
	}
	return place{}
}
