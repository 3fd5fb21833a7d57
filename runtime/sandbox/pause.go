package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// pause writes down that the script waits for people, and waits for them too. It
// returns again when the script can go on, else what the caller is told.
func (s *session) pause(ctx context.Context, wait time.Duration) (result Result, again bool, err error) {
	if s.due() {
		if err := s.r.makeRoom(context.WithoutCancel(ctx), &s.who, 0); runtime.CodeOf(err) == runtime.CodeRateLimited {
			return s.ended(ctx, stopped(err))
		}
	}
	result = s.paused()
	// The record comes first: with it, all that was held back is durable as such.
	event := Event{Kind: "exec.pause", Principal: &s.who, Execution: s.id, Durable: true, Fields: map[string]string{"approval": result.Paused.ApprovalID}}
	err = s.r.o.Record(context.WithoutCancel(ctx), event)
	if expires := s.latest().Add(s.r.o.Keep); err == nil {
		err = s.conclude(ctx, journal.Paused, result, expires)
	} else {
		_ = s.conclude(ctx, journal.Running, result, expires) // what was answered is not asked again
	}
	if runtime.CodeOf(err) == runtime.CodeRateLimited { // the write that was under way
		return s.ended(ctx, stopped(err))
	}
	if err != nil {
		s.kill()
		s.forsaken()
		return Result{}, false, err
	}
	s.ask()
	if wait > 0 {
		s.tell(StagePaused, s.id)
	}
	s.r.park(s)
	s.leave()
	waited, again, err := s.await(ctx, wait)
	if runtime.CodeOf(err) == runtime.CodeRateLimited { // it is paused still: told to come later, its caller would send it again
		return result, false, nil
	}
	return waited, again, err
}

// await waits for a person's decision on any of the held calls. Meanwhile the
// worker lives for the grace time only.
func (s *session) await(ctx context.Context, wait time.Duration) (Result, bool, error) {
	s.r.park(s)
	decided, err := s.decision(ctx, wait)
	if err != nil || !decided {
		return s.paused(), false, err
	}
	if err := s.turn(ctx); err != nil {
		return Result{}, false, err
	}
	s.r.unpark(s)
	if err := s.goOn(ctx, journal.Paused); err != nil {
		return Result{}, false, err
	}
	if s.worker != nil {
		s.later = s.waiting()
		s.begun()
		s.release()
		return Result{}, true, nil
	}
	if failure, err := s.broken(ctx); err != nil || failure != nil {
		if failure != nil {
			return s.ended(ctx, failure)
		}
		return Result{}, false, err
	}
	failure, err := s.rewind(ctx)
	if err != nil {
		return Result{}, false, err
	}
	if failure != nil {
		return s.ended(ctx, failure)
	}
	s.start()
	return Result{}, true, nil
}

// ended finishes from within a pause.
func (s *session) ended(ctx context.Context, failure *frame.Failure) (Result, bool, error) {
	result, err := s.finish(ctx, &frame.Done{Failure: failure})
	return result, false, err
}

// decision waits until one of the questions is no longer open; false when all
// still are. That of a call which was tried in vain does not count until it is decided: where
// another rule asks now than the one that a yes for a while is for, it would be tried without end.
func (s *session) decision(ctx context.Context, wait time.Duration) (bool, error) {
	held := s.waiting()
	for _, c := range held {
		open, err := s.r.o.Approval(ctx, s.caller, s.who, c.Approval, Now)
		if err != nil && !verdict(err) {
			return false, err
		}
		if err != nil || !open && !c.vain {
			return true, nil
		}
	}
	if wait <= 0 {
		return false, nil
	}
	done, ok := s.r.mayWait(&s.who, s.traffic)
	if !ok {
		return false, nil
	}
	defer done()
	s.unload()
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	answers := make(chan error, len(held))
	for _, c := range held {
		until := Closed
		if c.vain {
			until = Decided
		}
		go func() {
			_, err := s.r.o.Approval(waiting, s.caller, s.who, c.Approval, until)
			answers <- err
		}()
	}
	dying := time.After(s.r.o.Grace)
	for {
		select {
		case err := <-answers:
			if waiting.Err() != nil {
				return false, nil
			}
			if err != nil && !verdict(err) {
				return false, err
			}
			return true, nil
		case <-dying:
			s.kill()
		}
	}
}

// verdict reports whether an error is a person's decision, or that none came.
func verdict(err error) bool {
	code := runtime.CodeOf(err)
	return code == runtime.CodeApprovalRejected || code == runtime.CodeApprovalExpired
}

// goOn claims the execution for this process, from the state that it is in. What
// keeps it from beginning then leaves it to whoever resumes it next, since all of it
// is in the journal.
func (s *session) goOn(ctx context.Context, from journal.State) error {
	ok, err := s.r.o.Store.ClaimExecution(ctx, s.row.Tenant, s.id, from, s.row.Holder, s.r.o.Process())
	if err == nil && !ok {
		err = taken(s.id)
	}
	if err != nil {
		s.kill()
		return err
	}
	s.row.State, s.row.Holder = journal.Running, s.r.o.Process()
	s.forsaken()
	event := Event{Kind: "exec.resume", Principal: &s.who, Execution: s.id, Fields: map[string]string{"from": string(from)}}
	return s.r.o.Record(context.WithoutCancel(ctx), event)
}

// forsaken says that nothing of the execution runs, though it stands as running: whoever
// asks for it next goes on with what the journal and the trail have.
func (s *session) forsaken() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.unbegun[s.id] = true
}

// begun says that something of the execution runs now, or that it ends: from here on
// only this session knows all of it.
func (s *session) begun() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	delete(s.r.unbegun, s.id)
}

// paused is what the caller is told of a script that waits: of its first question.
func (s *session) paused() Result {
	result := s.so()
	if held := s.waiting(); len(held) > 0 {
		c := held[0]
		result.Paused = &Paused{
			ExecutionID: s.id, ToolPath: string(c.Ref), Message: c.Asked, Args: json.RawMessage(c.Args),
			ApprovalID: c.Approval, ExpiresAt: c.Expires.UTC(),
		}
		if len(held) > 1 {
			result.Paused.Message += fmt.Sprintf("; %d calls wait in all", len(held))
		}
	}
	return result
}

// so is what can be told of the execution as it stands. It repeats arguments as far as
// all of them are no longer than an answer may be.
func (s *session) so() Result {
	result := Result{ExecutionID: s.id, Calls: []CallResult{}, Logs: s.logs}
	left := s.r.o.Limits.Result
	for _, c := range s.calls {
		if c.Kind != frame.CallTool {
			continue
		}
		one := CallResult{Path: string(c.Ref), Millis: c.Millis, Status: c.Status, Args: repeated(c.Args, left)}
		if one.Path == "" {
			one.Path = c.Path
		}
		left -= len(one.Args)
		if one.Status == "" {
			one.Status = CallCanceled
		}
		if c.Error != nil {
			one.Error = c.Error.Code + ": " + c.Error.Message
		}
		result.Calls = append(result.Calls, one)
	}
	return result
}

// repeated are the arguments of a call, null where they have more than so many bytes.
func repeated(args string, most int) json.RawMessage {
	if len(args) > most {
		return json.RawMessage("null")
	}
	if text := json.RawMessage(args); json.Valid(text) {
		return text
	}
	return json.RawMessage("{}")
}

// rejected ends a script that the gate refuses.
func (s *session) rejected(ctx context.Context, refusals []frame.Refusal) (Result, error) {
	result := Result{
		ExecutionID: s.id, Kind: frame.KindRejected, Error: refusalText(refusals), Calls: []CallResult{}, Refusals: refusals,
	}
	return s.conclusion(ctx, result, s.dismiss())
}

// finish ends the execution: what is under way is cut off, and how it ended is
// written down.
func (s *session) finish(ctx context.Context, done *frame.Done) (Result, error) {
	s.begun()
	reaped := s.dismiss()
	asked := s.undecided()
	for _, c := range s.calls {
		if c.Kind == frame.CallTool && !c.Replied && (c.Status == CallPending || c.Status == "") {
			c.Status = CallCanceled
		}
	}
	result := s.so()
	if names := s.abandoned(asked); len(names) > 0 && done.Failure == nil {
		text := fmt.Sprintf("%d calls were not awaited and were cut off: %s", len(names), join(names))
		if len(names) == 1 {
			text = "1 call was not awaited and was cut off: " + names[0]
		}
		result.Logs = append(result.Logs, frame.Log{Level: "warn", Message: text})
	}
	if len(asked) > 0 {
		result.Logs = append(result.Logs, frame.Log{Level: "warn", Message: leftOpen(asked)})
	}
	switch failure := done.Failure; {
	case failure != nil:
		result.Kind, result.Error, result.Failure = failure.Kind, failureText(failure), failure
	case done.Value != "" && !json.Valid([]byte(done.Value)):
		failure := offProtocol()
		result.Kind, result.Error, result.Failure = failure.Kind, failureText(failure), failure
	default:
		result.Success = true
		if done.Value != "" {
			result.Value = json.RawMessage(done.Value)
		}
	}
	return s.conclusion(ctx, result, reaped)
}

// abandoned are the tools whose calls the script did not wait for, but for those that a
// person was asked about.
func (s *session) abandoned(asked []*call) []string {
	var out []string
	for _, c := range s.calls {
		if c.Kind == frame.CallTool && c.Status == CallCanceled && !slices.Contains(asked, c) {
			out = append(out, string(c.Ref))
		}
	}
	return out
}

func join(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += ", …"
	}
	return text
}

// conclusion writes the last record and the last state. The caller does not wait
// for either: the calls are recorded already, and who asks for the execution gets
// the result from memory until it is kept, or given up. The turn is given back after,
// and after the worker's end.
func (s *session) conclusion(ctx context.Context, result Result, reaped func()) (Result, error) {
	how := "ok"
	if !result.Success {
		how = string(result.Kind)
	}
	event := Event{Kind: "exec.end", Principal: &s.who, Execution: s.id, Fields: map[string]string{
		"result": how, "calls": strconv.Itoa(len(result.Calls)), "ran": (s.source.Timeout - s.left).Round(time.Millisecond).String(),
	}}
	_ = s.r.o.Record(context.WithoutCancel(ctx), event) // the trail says itself that it fails, and refuses the next script
	leave, expires := s.leave, s.r.o.Clock().Add(s.r.o.Keep)
	s.leave = func() {}
	s.r.ending(&s.who, s.id, result, func() {
		s.r.last(s.entry(journal.Ended, result, expires))
		reaped()
		leave()
	})
	return result, nil
}
