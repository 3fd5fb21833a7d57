package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// session is one execution while this process has to do with it. All its fields
// belong to the one goroutine that runs it; a kept session has none.
type session struct {
	r       *Runner
	id      string
	who     runtime.Principal
	caller  runtime.Caller
	tools   tools
	tell    func(stage, s string)
	asked   Asked  // nil: nobody is told
	askedOf string // the approval that it was told of last

	source  source        // what is kept of the script itself
	left    time.Duration // of the time it may run
	worker  Worker        // nil: none, or no more
	mail    chan mail     // from the worker
	expiry  *time.Timer   // of a kept session
	parked  bool          // its worker is one of [Runner.parked]; guarded by the runner's lock
	row     journal.Execution
	diary   diary
	calls   []*call // by step, from 1 at 0
	order   []int   // of a replay: the steps that were answered, in that order
	later   []*call // begun once the replay has caught up
	past    map[int]bool
	answers chan answered
	flying  map[int]context.CancelFunc
	crew    chan flight // to those that have nothing to do
	alarms  alarms
	idle    *frame.Idle // what the worker waits for, as it has said since the last reply; nil: nothing
	timers  bool        // it waited for a timer too when it last said so
	said    said
	logs    []frame.Log
	logged  int // bytes
	traffic int // bytes of the calls, their arguments and answers before all
	looked  int // how many of them when there was room for more in the store
	now     int64
	live    context.Context // of the calls
	end     context.CancelFunc
	leave   func()  // gives the turn back; may be called again
	unload  func()  // gives that of being read back; may be called again
	outbox  *outbox // to the worker
}

// said counts what this worker and its session have said to each other, calls by their
// kind: they may be thousands, and are not to be counted anew for each.
type said struct {
	tools   int // calls of tools
	open    int // calls other than timers that have no reply
	replies int
}

// mail is what came from the worker; a nil message means that it is gone.
type mail struct{ m *frame.ToHost }

// source is the script as it is kept.
type source struct {
	Text    string
	Allow   []runtime.Glob
	Timeout time.Duration
	Now     int64 // the clock it began with, in milliseconds since 1970
	Seed    uint64
}

func (r *Runner) newSession(who runtime.Principal, script Script) *session {
	now := r.o.Clock()
	timeout := r.o.Limits.Timeout
	if script.Timeout > 0 {
		timeout = min(timeout, script.Timeout)
	}
	s := r.bareSession(who, script.Caller, script.Progress)
	s.id, s.asked = r.o.NewID(), script.Asked
	s.source = source{Text: script.Source, Allow: script.Allow, Timeout: timeout, Now: now.UnixMilli(), Seed: rand.Uint64()}
	s.left, s.now = timeout, s.source.Now
	s.tools = tools{catalog: r.o.Catalog(), who: &s.who, allow: script.Allow}
	s.row = journal.Execution{
		ID: s.id, Tenant: who.Tenant, Principal: who.ID, State: journal.Running, Holder: r.o.Process(),
		Created: now.UTC().Truncate(time.Millisecond),
	}
	return s
}

func (r *Runner) bareSession(who runtime.Principal, caller runtime.Caller, tell func(stage, s string)) *session {
	s := &session{
		r: r, past: map[int]bool{},
		answers: make(chan answered, r.o.Limits.InFlight), flying: map[int]context.CancelFunc{}, leave: func() {}, unload: func() {},
	}
	s.serve(who, caller, tell)
	return s
}

// serve makes a session that of a request: who asks, and is told of it. Those of the one
// before may not be used when that has its answer. What it tried in vain is tried anew.
func (s *session) serve(who runtime.Principal, caller runtime.Caller, tell func(stage, s string)) {
	if tell == nil {
		tell = func(string, string) {}
	}
	s.who, s.caller, s.tell = who, caller, tell
	for _, c := range s.calls {
		c.vain = false
	}
}

// turn waits until the script may run. What is in the store as well is not in memory
// meanwhile, nor in the way of others that are read back: somebody's crowd may be before it.
func (s *session) turn(ctx context.Context) error {
	if ctx.Err() == nil && s.r.turns.free() {
		s.leave = sync.OnceFunc(s.r.turns.leave)
		s.unload()
		return nil
	}
	much := s.worker == nil && s.traffic > s.r.o.Limits.Result
	if much {
		s.calls = nil
	}
	s.unload()
	leave, err := s.r.enter(ctx, s.r.turns, &s.who)
	if err != nil {
		return err
	}
	s.leave = leave
	if much {
		return s.recall(ctx)
	}
	return nil
}

// launch starts the worker and reads what it says.
func (s *session) launch(ctx context.Context) error {
	w, err := s.r.o.Start(ctx, s.r.o.Limits)
	if err != nil {
		return notStarted(err)
	}
	s.worker, s.mail, s.said = w, make(chan mail, 4), said{}
	s.live, s.end = context.WithCancel(context.Background())
	s.crew = make(chan flight)
	s.outbox = newOutbox()
	go s.outbox.send(s.live, w)
	go func(live context.Context, to chan<- mail) {
		for {
			m := heard(w)
			select {
			case to <- mail{m}:
			case <-live.Done():
				return
			}
			if m == nil {
				return
			}
		}
	}(s.live, s.mail)
	return nil
}

// heard is the next message of a worker, nil when nothing more can come. Whatever runs
// there may have written it.
func heard(w Worker) (m *frame.ToHost) {
	var err error
	defer func() {
		if err != nil {
			m = nil
		}
	}()
	defer runtime.Contain(&err)
	m, err = w.Recv()
	return m
}

func notStarted(err error) error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Msg: "the process that runs scripts does not start here", Hint: "kimbap doctor", Err: err,
	}
}

// kill ends the worker and the calls under way, and waits for both.
func (s *session) kill() { s.dismiss()() }

// killBroken is deferred where a session is followed: when that panics, nobody has to do
// with its worker any more, and its owner may go on with it.
func (s *session) killBroken() {
	if broken := recover(); broken != nil {
		s.kill()
		s.forsaken()
		panic(broken)
	}
}

// dismiss ends the worker and the calls under way. It waits for the calls; the func
// that is returned waits for the worker, whose memory the kernel takes back at its
// leisure, and must be called.
func (s *session) dismiss() (reaped func()) {
	if s.worker == nil {
		return func() {}
	}
	s.end()
	gone := make(chan struct{})
	go func(w Worker) {
		w.Kill()
		close(gone)
	}(s.worker)
	s.worker = nil
	s.alarms.stop()
	s.r.unpark(s)
	for len(s.flying) > 0 {
		s.drop(<-s.answers)
	}
	return func() { <-gone }
}

// check asks the gate.
func (s *session) check(ctx context.Context) (*frame.Checked, *frame.Failure, error) {
	s.post(&frame.ToWorker{Check: &frame.Check{Source: s.source.Text}})
	began := time.Now()
	timer := time.NewTimer(s.left)
	defer timer.Stop()
	select {
	case got := <-s.mail:
		s.left -= time.Since(began)
		switch {
		case got.m == nil:
			failure, err := s.worker.Ended()
			if err != nil {
				return nil, nil, notStarted(err)
			}
			return nil, &failure, nil
		case got.m.Checked == nil:
			return nil, offProtocol(), nil
		}
		return got.m.Checked, nil, nil
	case <-timer.C:
		return nil, tooLong(s.source.Timeout), nil
	case <-ctx.Done():
		return nil, nil, gone(ctx)
	}
}

// run checks the source and follows the script until it ends or pauses. The time
// that it waits for people is not its own.
func (s *session) run(ctx context.Context, wait time.Duration) (Result, error) {
	checked, failure, err := s.check(ctx)
	switch {
	case err != nil:
		return Result{}, err
	case failure != nil:
		checked = &frame.Checked{}
	}
	manifest := s.tools.manifest(checked.Tools)
	if err := s.r.o.Record(ctx, s.startEvent(manifest, checked)); err != nil {
		return Result{}, err
	}
	if failure == nil && len(checked.Refusals) > 0 {
		return s.rejected(ctx, checked.Refusals)
	}
	if failure != nil {
		return s.finish(ctx, &frame.Done{Failure: failure})
	}
	s.tell(StageValid, "")
	if services := servicesOf(manifest); len(services) > 0 {
		s.tell(StageTools, strings.Join(services, ", "))
	}
	return s.play(ctx, wait)
}

// play runs the source that was checked.
func (s *session) play(ctx context.Context, wait time.Duration) (Result, error) {
	s.start()
	return s.proceed(ctx, wait)
}

// start has the worker run the source.
func (s *session) start() {
	s.begun()
	s.post(&frame.ToWorker{Run: &frame.Run{Now: s.source.Now, Seed: s.source.Seed, Limits: s.r.o.Limits.frame()}})
}

// proceed follows the worker through any number of pauses.
func (s *session) proceed(ctx context.Context, wait time.Duration) (Result, error) {
	until := time.Now().Add(wait)
	for {
		done, err := s.loop(ctx)
		if err != nil || done != nil {
			if err != nil {
				done = &frame.Done{Failure: stopped(err)}
			}
			return s.finish(ctx, done)
		}
		result, again, err := s.pause(ctx, time.Until(until))
		if !again || err != nil {
			result.ExecutionID = s.id // also with an error: it had begun
			return result, s.halfway(err)
		}
	}
}

// halfway says of an error to whom it is told that the script had begun, so that it is not
// sent again, by a person or by a program that was told when to.
func (s *session) halfway(err error) error {
	if err == nil {
		return nil
	}
	e := *runtime.AsError(err)
	e.Msg, e.RetryAfter = "the execution "+s.id+" had begun, and cannot go on now: "+e.Msg, 0
	e.Hint = "do not send the script again; go on with: kimbap exec --resume " + s.id
	e.Ask = "do not send the script again; resume " + s.id
	return &e
}

// loop follows the worker until it ends, with why, or until all that it waits for
// waits for people: then done is nil. An error is kimbap's own.
func (s *session) loop(ctx context.Context) (done *frame.Done, err error) {
	began := time.Now()
	timer, again := time.NewTimer(s.left), time.NewTicker(s.r.o.Look)
	defer func() {
		timer.Stop()
		again.Stop()
		s.left = max(s.left-time.Since(began), 0)
	}()
	for !s.stuck() {
		select {
		case <-again.C:
			s.look()
		case got := <-s.mail:
			done = s.hear(got.m)
		case a := <-s.answers:
			done = s.settle(a)
		case <-s.bell():
			s.ring()
		case err := <-s.diary.written:
			if err := s.noted(err); err != nil {
				return nil, err
			}
		case <-s.diary.due():
			s.note()
		case <-timer.C:
			done = &frame.Done{Failure: s.tooLong()}
		case <-ctx.Done():
			done = &frame.Done{Failure: &frame.Failure{Kind: frame.KindInterrupted, Message: gone(ctx).Msg}}
		}
		if done != nil {
			return done, nil
		}
	}
	return nil, nil
}

func tooLong(limit time.Duration) *frame.Failure {
	return &frame.Failure{Kind: frame.KindTimeout, Message: "the script ran longer than " + runtime.Span(limit)}
}

// startEvent is the record of the script itself, before it runs.
func (s *session) startEvent(manifest []string, checked *frame.Checked) Event {
	sum := sha256.Sum256([]byte(s.source.Text))
	l := s.r.o.Limits
	fields := map[string]string{
		"sha256": hex.EncodeToString(sum[:]), "bytes": strconv.Itoa(len(s.source.Text)), "tools": strings.Join(manifest, " "),
		"limits": fmt.Sprintf("timeout=%s heap=%d calls=%d", s.source.Timeout, l.Heap, l.Calls),
	}
	if checked.Dynamic {
		fields["dynamic"] = "true"
	}
	for _, g := range s.source.Allow {
		fields["allow"] = strings.TrimSpace(fields["allow"] + " " + string(g))
	}
	return Event{Kind: "exec.start", Principal: &s.who, Execution: s.id, Fields: fields}
}
