package sandbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// maxSource is the longest source, in bytes.
const maxSource = 64 << 10

// Runner runs scripts. It is safe for concurrent use.
type Runner struct {
	o     Options
	turns *turns // to run
	loads *turns // to be read back from the store, which is in memory until it runs or waits

	keeping sync.WaitGroup // of results
	late    lateEnds

	mu      sync.Mutex
	held    map[string]*session // paused, their workers alive, and nobody waits
	waits   map[string]waits    // callers that wait for people, by owner
	waiting int                 // bytes of all of them
	parked  int                 // paused, their workers alive, and their callers wait
	ended   map[string]outcome  // their results are not kept yet
	lost    map[string]bool     // they have ended, and their results were given up
	busy    map[[3]string]bool  // somebody of this process runs them, or waits with them
	unbegun map[string]bool     // this process holds them, and nothing of them runs: they could not begin, or not be paused
	swept   time.Time
	stopped bool
}

// New checks the options; it starts nothing.
func New(o Options) (*Runner, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	open, shut := context.WithCancel(context.Background())
	return &Runner{
		o: o, turns: newTurns(o.Workers, o.Queue), loads: newTurns(o.Workers, o.Queue), waits: map[string]waits{}, held: map[string]*session{}, ended: map[string]outcome{}, busy: map[[3]string]bool{},
		unbegun: map[string]bool{}, lost: map[string]bool{}, late: lateEnds{open: open, close: shut},
	}, nil
}

// Execute checks and runs a script. It returns when the script has ended, or
// waits for a person for longer than [Script.Wait]. The error is an *Error for
// what was never begun: an unknown caller, a trail that cannot be written, no room;
// with an ExecutionID, of what had begun and could not be paused.
func (r *Runner) Execute(ctx context.Context, script Script) (Result, error) {
	who, err := r.o.Identify(ctx, script.Caller)
	if err != nil {
		return Result{}, err
	}
	if err := script.checkAllow(); err != nil {
		return Result{}, err
	}
	if refused := sourceTooLong(script.Source); refused != nil {
		return *refused, nil
	}
	s := r.newSession(who, script)
	defer func() { s.leave() }()
	done, _ := r.alone(&who, s.id)
	defer done()
	defer s.killBroken()
	if err := s.turn(ctx); err != nil {
		return Result{}, err
	}
	r.sweep(ctx)
	if err := r.makeRoom(ctx, &who, int64(r.o.Limits.Traffic)); err != nil {
		return Result{}, err
	}
	if err := s.launch(ctx); err != nil {
		return Result{}, err
	}
	return r.follow(ctx, s, script.Wait)
}

// Check says what the gate says of a source, and what it would call. Nothing
// of it runs.
func (r *Runner) Check(ctx context.Context, script Script) (Manifest, error) {
	who, err := r.o.Identify(ctx, script.Caller)
	if err != nil {
		return Manifest{}, err
	}
	if err := script.checkAllow(); err != nil {
		return Manifest{}, err
	}
	if refused := sourceTooLong(script.Source); refused != nil {
		return Manifest{Refusals: refused.Refusals, Tools: []string{}}, nil
	}
	s := r.newSession(who, script)
	defer func() { s.kill(); s.leave() }()
	if err := s.turn(ctx); err != nil {
		return Manifest{}, err
	}
	if err := s.launch(ctx); err != nil {
		return Manifest{}, err
	}
	checked, failure, err := s.check(ctx)
	switch {
	case err != nil:
		return Manifest{}, err
	case failure != nil:
		return Manifest{}, &runtime.Error{Code: runtime.CodeScriptLimit, Msg: "the source could not be checked: " + failure.Message}
	}
	unknown, meant := s.tools.strange(checked.Tools)
	return Manifest{
		Refusals: checked.Refusals, Tools: s.tools.manifest(checked.Tools), Unknown: unknown, Meant: meant, Missing: s.tools.missed(unknown),
		NotAllowed: s.tools.leftOut(checked.Tools), Dynamic: checked.Dynamic, TypeScript: checked.TypeScript,
	}, nil
}

func sourceTooLong(source string) *Result {
	if len(source) <= maxSource {
		return nil
	}
	refusals := []frame.Refusal{{Line: 1, Column: 1, Message: fmt.Sprintf("The source has %d bytes; a script has at most %d", len(source), maxSource)}}
	return &Result{Kind: frame.KindRejected, Error: refusalText(refusals), Calls: []CallResult{}, Refusals: refusals}
}

// follow runs a session until it ends or pauses for longer than wait; then its
// worker is kept for a while, if there is room.
func (r *Runner) follow(ctx context.Context, s *session, wait time.Duration) (Result, error) {
	result, err := s.run(ctx, wait)
	if result.Paused != nil && err == nil && r.keep(s) {
		return result, nil
	}
	s.kill()
	return result, err
}

// Dispose ends the workers of paused scripts, which can be resumed, and waits until
// results are kept, for those that the store refuses no longer than a second. What runs
// is ended by its own context.
func (r *Runner) Dispose() {
	r.mu.Lock()
	held := r.held
	r.held, r.stopped = map[string]*session{}, true
	r.mu.Unlock()
	for _, s := range held {
		s.expiry.Stop()
		s.kill()
	}
	r.late.close()
	r.keeping.Wait()
	r.lastTries()
}

// keep takes a paused session into the runner's care for the grace time.
func (r *Runner) keep(s *session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.parked {
		s.parked = false
		r.parked--
	}
	if r.stopped || s.worker == nil || len(r.held)+r.parked >= r.o.Held {
		return false
	}
	r.held[s.id] = s
	s.expiry = time.AfterFunc(r.o.Grace, func() {
		if r.take(s.id) == s {
			s.kill()
		}
	})
	return true
}

// park counts a worker whose script waits for a person among those that are kept:
// it has given its turn back, so nothing else bounds how many there are. Where
// there are enough it ends, and the script is run again up to here later.
func (r *Runner) park(s *session) {
	r.mu.Lock()
	stays := s.parked || s.worker != nil && len(r.held)+r.parked < r.o.Held
	if stays && !s.parked {
		s.parked = true
		r.parked++
	}
	r.mu.Unlock()
	if !stays {
		s.kill()
	}
}

// unpark is the end of that: it has a turn again, or no worker.
func (r *Runner) unpark(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.parked {
		s.parked = false
		r.parked--
	}
}

// alone lets one at a time of this process go on with an execution. The store
// decides between processes; within one, what it says of a paused execution is the
// same before and after somebody has gone on with it as far as the next question,
// and a session that has slept through that knows calls as open that are made.
func (r *Runner) alone(who *runtime.Principal, id string) (done func(), ok bool) {
	key := busyKey(who, id)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[key] {
		return nil, false
	}
	r.busy[key] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, key)
	}, true
}

// busyKey names an execution, and who asks for it: whose it is not, holds nobody up.
func busyKey(who *runtime.Principal, id string) [3]string {
	return [3]string{string(who.Tenant), who.ID, id}
}

// isBusy reports whether somebody of this process has to do with an execution.
func (r *Runner) isBusy(who *runtime.Principal, id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy[busyKey(who, id)]
}

// take hands a kept session over to the one who goes on with it; nil when there
// is none.
func (r *Runner) take(id string) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.held[id]
	if s != nil {
		delete(r.held, id)
		s.expiry.Stop()
	}
	return s
}

// gone is the error of a caller who left before anything was begun.
func gone(ctx context.Context) *runtime.Error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &runtime.Error{Code: runtime.CodeTimeout, Msg: "the time given was over before the script had its turn", Err: ctx.Err()}
	}
	return &runtime.Error{Code: runtime.CodeCanceled, Msg: "the caller went away", Err: ctx.Err()}
}

// interrupted is said of an execution that nobody goes on with.
const interrupted = "the process that ran the script has ended, or could not go on with it; what was answered is kept: resume it to go on, or to learn what came of it"

// Status returns how an execution of the caller's stands.
func (r *Runner) Status(ctx context.Context, caller runtime.Caller, id string) (Result, error) {
	who, err := r.o.Identify(ctx, caller)
	if err != nil {
		return Result{}, err
	}
	if result, ended := r.justEnded(&who, id); ended {
		return result, nil
	}
	row, err := r.row(ctx, &who, id)
	if err != nil {
		return Result{}, err
	}
	stored, err := r.openResult(ctx, row)
	if err != nil {
		return Result{}, err
	}
	result := stored.result()
	if row.State == journal.Running {
		result.Paused = nil // somebody goes on with it
		lost, err := r.isLost(ctx, &row)
		switch {
		case err != nil:
			return Result{}, err
		case lost:
			return stored.unkept(), nil
		case r.orphaned(&row) && !r.isBusy(&who, id):
			result.Kind, result.Error = frame.KindInterrupted, interrupted
		}
	}
	return result, nil
}

// orphaned reports whether nobody goes on with an execution that is not paused and
// has not ended: its process is gone, or is this one and could not begin or pause it. Only
// resuming it changes that.
func (r *Runner) orphaned(row *journal.Execution) bool {
	if row.State != journal.Running {
		return false
	}
	if row.Holder == r.o.Process() {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.unbegun[row.ID]
	}
	return !r.o.Alive(row.Holder)
}

// row finds an execution of the principal's own; to anybody else it is unknown.
func (r *Runner) row(ctx context.Context, who *runtime.Principal, id string) (journal.Execution, error) {
	row, found, err := r.o.Store.Execution(ctx, who.Tenant, id)
	if err != nil {
		return row, err
	}
	if !found || who.ID == "" || row.Principal != who.ID {
		return row, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonNotFound,
			Msg: fmt.Sprintf("there is no execution %s", shown(id)), Hint: "executions are forgotten a day after they end, and sooner where others need the room",
		}
	}
	return row, nil
}

// sweep forgets old executions, at most once an hour.
func (r *Runner) sweep(ctx context.Context) {
	now := r.o.Clock()
	r.mu.Lock()
	due := now.Sub(r.swept) >= time.Hour
	if due {
		r.swept = now
	}
	r.mu.Unlock()
	if due {
		_ = r.o.Store.DropExecutions(ctx, now) // the next one tries again
	}
}
