package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// Resume goes on with an execution of the caller's own. One that has ended is not
// run again: its result is returned. One that is paused goes on as soon as a
// person has decided, and is returned paused when nobody does within the wait.
// One whose process died is run again up to where it was, unless it had begun a
// call that may not be repeated: then it ends, interrupted.
func (r *Runner) Resume(ctx context.Context, asked Resumption) (Result, error) {
	who, err := r.o.Identify(ctx, asked.Caller)
	if err != nil {
		return Result{}, err
	}
	if result, ended := r.justEnded(&who, asked.ID); ended {
		return result, nil
	}
	done, free := r.alone(&who, asked.ID)
	if free {
		defer done()
		if result, ended := r.justEnded(&who, asked.ID); ended { // since it was asked above
			return result, nil
		}
	}
	row, err := r.row(ctx, &who, asked.ID)
	if err != nil {
		return Result{}, err
	}
	lost, err := r.isLost(ctx, &row)
	switch {
	case err != nil:
		return Result{}, err
	case row.State == journal.Ended:
		st, err := r.openResult(ctx, row)
		return st.result(), err
	case lost:
		st, err := r.openResult(ctx, row)
		return st.unkept(), err
	case !free, row.State == journal.Running && !r.orphaned(&row):
		return Result{}, taken(row.ID)
	}
	s := r.take(asked.ID)
	if s == nil || s.row.Holder != row.Holder {
		if s != nil {
			s.kill()
		}
		unload, err := r.enter(ctx, r.loads, &who)
		if err != nil {
			return Result{}, err
		}
		defer unload()
		if s, err = r.load(ctx, who, row, asked); err != nil {
			return Result{}, err
		}
		if s.unload = unload; s.traffic <= r.o.Limits.Result { // so little may wait for its turn
			unload()
		}
	}
	s.serve(who, asked.Caller, asked.Progress)
	s.asked = asked.Asked
	defer func() { s.leave() }()
	defer s.killBroken()
	if row.State == journal.Running {
		return r.recover(ctx, s, asked)
	}
	result, again, err := s.await(ctx, asked.Wait)
	if again && err == nil {
		result, err = s.proceed(ctx, asked.Wait)
	}
	if result.Paused != nil && err == nil && r.keep(s) {
		return result, nil
	}
	s.kill()
	return result, err
}

// recover runs an execution again whose process died, or could not begin.
func (r *Runner) recover(ctx context.Context, s *session, asked Resumption) (Result, error) {
	if err := s.turn(ctx); err != nil {
		return Result{}, err
	}
	if err := s.goOn(ctx, journal.Running); err != nil {
		return Result{}, err
	}
	result, err := Result{}, error(nil)
	if failure, ferr := s.broken(ctx); ferr != nil || failure != nil {
		if ferr != nil {
			return Result{}, ferr
		}
		return s.finish(ctx, &frame.Done{Failure: failure})
	}
	if result, err = s.repeat(ctx, asked.Wait); result.Paused != nil && err == nil && r.keep(s) {
		return result, nil
	}
	s.kill()
	return result, err
}

// load reads an execution back from the journal.
func (r *Runner) load(ctx context.Context, who runtime.Principal, row journal.Execution, asked Resumption) (*session, error) {
	s := r.bareSession(who, asked.Caller, asked.Progress)
	s.id, s.row = row.ID, row
	if err := r.unseal(ctx, row, purposeScript, row.Script, bind(&row, 0, 0), &s.source); err != nil {
		return nil, err
	}
	st, err := r.openResult(ctx, row)
	if err != nil {
		return nil, err
	}
	s.left = max(s.source.Timeout-st.Ran, 0)
	s.tools = tools{catalog: r.o.Catalog(), who: &s.who, allow: s.source.Allow}
	err = s.recall(ctx)
	s.looked = s.traffic - r.o.Limits.Result // others may have taken the room meanwhile
	return s, err
}

// recall reads the calls back.
func (s *session) recall(ctx context.Context) error {
	kept, err := s.r.o.Store.ExecutionCalls(ctx, s.row.Tenant, s.id)
	if err != nil {
		return err
	}
	s.calls, s.traffic = nil, 0
	for i, k := range kept {
		c := &call{step: k.Step, Settled: k.Settled}
		if k.Step != i+1 {
			return incomplete(s.id)
		}
		if err := s.r.unseal(ctx, s.row, purposeCall, k.Sealed, bind(&s.row, k.Step, k.Settled), c); err != nil {
			return err
		}
		c.Settled = k.Settled
		s.calls = append(s.calls, c)
		s.traffic += c.size()
	}
	return nil
}

func incomplete(id string) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeForbidden, Reason: runtime.ReasonTampered,
		Msg: fmt.Sprintf("calls of the execution %s are missing from the store", id), Hint: "find out who can write to the store",
	}
}

// broken says why an execution whose process died cannot be repeated: by the
// trail a call had left, or may have, its answer is not in the journal, and it may
// not be made twice. Nil when there is no such call.
func (s *session) broken(ctx context.Context) (*frame.Failure, error) {
	begun, err := s.r.o.Begun(ctx, s.who.Tenant, s.id)
	if err != nil {
		return nil, err
	}
	var open []Begun
	var failure *frame.Failure
	for _, b := range begun {
		if s.kept(b.Step) && s.calls[b.Step-1].Settled > 0 {
			continue
		}
		open = append(open, b)
		if action := s.tools.lookup(string(b.Action)); failure == nil && (action == nil || !action.Idempotent) {
			failure = &frame.Failure{Kind: frame.KindInterrupted, Message: fmt.Sprintf(
				"the process ended while call %d, %s, was under way: it may have happened, and may not be repeated", b.Step, b.Action)}
		}
	}
	if failure != nil {
		for _, b := range open {
			s.unknown(b)
		}
	}
	return failure, nil
}

// kept reports whether the journal has a call.
func (s *session) kept(step int) bool {
	return step >= 1 && step <= len(s.calls) && s.calls[step-1].step == step
}

// unknown tells of a call that it may have happened. One that the journal does not
// have yet is told of all the same, with its arguments as the trail has them.
func (s *session) unknown(b Begun) {
	if !s.kept(b.Step) {
		s.calls = append(s.calls, &call{Kind: frame.CallTool, step: b.Step, Path: string(b.Action), Args: string(b.Args), Ref: b.Action, Status: CallUnknown})
		return
	}
	c := s.calls[b.Step-1]
	c.Status, c.Ref = CallUnknown, b.Action
	s.diary.changed(c)
}

// repeat runs the script again from its beginning: what was answered is answered
// again, in the same order, and what was not is done.
func (s *session) repeat(ctx context.Context, wait time.Duration) (Result, error) {
	if failure, err := s.rewind(ctx); err != nil {
		return Result{}, err
	} else if failure != nil {
		return s.finish(ctx, &frame.Done{Failure: failure})
	}
	return s.play(ctx, wait)
}

// rewind starts a worker and puts the session back to the script's beginning.
func (s *session) rewind(ctx context.Context) (*frame.Failure, error) {
	s.logs, s.logged, s.idle, s.later, s.order = nil, 0, nil, nil, nil
	s.now, s.diary.settled = s.source.Now, 0
	clear(s.past)
	var settled []*call
	for _, c := range s.calls {
		c.Replied = false
		s.past[c.step] = true
		if c.Settled > 0 {
			settled = append(settled, c)
		}
	}
	slices.SortFunc(settled, func(a, b *call) int { return cmp.Compare(a.Settled, b.Settled) })
	for i, c := range settled {
		if c.Settled != i+1 {
			return nil, incomplete(s.id)
		}
		s.order = append(s.order, c.step)
	}
	s.diary.settled = len(settled)
	if err := s.launch(ctx); err != nil {
		return nil, err
	}
	checked, failure, err := s.check(ctx)
	if err == nil && failure == nil && len(checked.Refusals) > 0 {
		failure = diverged("the gate refuses it now")
	}
	return failure, err
}

func known(err error) bool {
	var e *runtime.Error
	return errors.As(err, &e)
}
