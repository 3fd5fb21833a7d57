package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// maxPath is the length of the longest path of a tool, in bytes: the engine makes none that
// is longer. It is compared with those that there are.
const maxPath = 8 * (128 + 1)

// call is one call of a script: what it asked, and how that stands. The exported
// fields are what the journal keeps.
type call struct {
	Kind     frame.CallKind
	Path     string `json:",omitempty"`
	Args     string `json:",omitempty"`
	Ref      runtime.Ref
	Line     int              `json:",omitempty"`
	Approval string           `json:",omitempty"` // the question it waits for, or waited for
	Expires  time.Time        `json:",omitzero"`  // when that question does
	Asked    string           `json:",omitempty"` // what is asked of the person
	Value    string           `json:",omitempty"`
	Error    *frame.ToolError `json:",omitempty"`
	Now      int64            `json:",omitempty"` // the clock of the reply
	Millis   int64            `json:",omitempty"`
	Status   CallStatus       `json:",omitempty"`
	Settled  int              `json:"-"` // its place in the order of replies, from 1; 0: none yet

	Replied    bool `json:"-"` // to this worker
	step       int
	action     *runtime.Action // nil: there is none
	idempotent bool
	vain       bool // tried in this resumption, and held back by the question that it had
	began      time.Time
}

// answered is the end of a call's work outside of the session's goroutine.
type answered struct {
	step   int
	answer Answer
}

// called takes one call of the worker.
func (s *session) called(m *frame.Call) *frame.Failure {
	if m.Seq < 1 || m.Seq > len(s.calls)+1 || len(m.Args) > s.r.o.Limits.Argument || len(m.Path) > maxPath {
		return offProtocol()
	}
	if m.Seq <= len(s.calls) { // of a replay: it was recorded
		c := s.calls[m.Seq-1]
		if !s.past[m.Seq] || c.Kind != m.Kind || c.Path != m.Path || c.Args != m.Args {
			return diverged(fmt.Sprintf("call %d is another one", m.Seq))
		}
		delete(s.past, m.Seq)
		s.said.call(c)
		if c.Settled == 0 {
			s.later = append(s.later, c)
		}
		s.feed()
		return nil
	}
	if len(s.past) > 0 {
		return diverged(fmt.Sprintf("call %d came before those that were recorded", m.Seq))
	}
	s.idle = nil
	c := &call{Kind: m.Kind, Path: m.Path, Args: m.Args, Line: m.Line, step: m.Seq}
	if failure := s.room(c); failure != nil {
		return failure
	}
	s.said.call(c)
	s.calls = append(s.calls, c)
	s.diary.changed(c)
	if len(s.order) > 0 {
		s.later = append(s.later, c)
		return nil
	}
	s.begin(c)
	return nil
}

// timerBytes is about what a timer takes: they say nothing, and there may be thousands.
const timerBytes = 320

// size is what a call takes of the memory for all of a script.
func (c *call) size() int {
	n := len(c.Kind) + len(c.Path) + len(c.Args) + len(c.Value)
	if c.Kind == frame.CallTimer {
		n += timerBytes
	}
	if c.Error != nil {
		n += len(c.Error.Message)
	}
	return n
}

// room holds the worker to what it was told: calls in all, calls at once, bytes.
func (s *session) room(next *call) *frame.Failure {
	l := s.r.o.Limits
	s.traffic += next.size()
	switch {
	case next.Kind == frame.CallTool && s.said.tools >= l.Calls, next.Kind != frame.CallTimer && s.said.open >= l.InFlight:
		return offProtocol()
	case len(s.calls) >= 20*l.Calls+1000:
		return &frame.Failure{Kind: frame.KindCalls, Message: fmt.Sprintf("the script made %d calls and timers", len(s.calls))}
	case s.traffic > l.Traffic:
		return &frame.Failure{Kind: frame.KindCalls, Message: fmt.Sprintf("the arguments and answers of the script's calls are over %d MiB together", l.Traffic>>20)}
	}
	return nil
}

// call counts one call of the worker.
func (n *said) call(c *call) {
	if c.Kind == frame.CallTool {
		n.tools++
	}
	if c.Kind != frame.CallTimer {
		n.open++
	}
}

// reply counts one reply to it.
func (n *said) reply(c *call) {
	n.replies++
	if c.Kind != frame.CallTimer {
		n.open--
	}
}

// release begins what had to wait, when nothing holds it back any more.
func (s *session) release() {
	if len(s.order) > 0 {
		return
	}
	later := s.later
	s.later = nil
	for _, c := range later {
		s.begin(c)
	}
}

// begin does what a call asks for; its answer comes by s.answers, that of a timer by
// s.bell.
func (s *session) begin(c *call) {
	c.began = time.Now()
	switch c.Kind {
	case frame.CallTool:
		s.invoke(c)
	case frame.CallSearch:
		value, err := s.tools.search(c.Args, s.asks)
		s.fly(c, func(context.Context) Answer { return Answer{Value: value, Err: err} })
	case frame.CallDescribe:
		value, err := s.tools.describe(c.Args, s.asks)
		s.fly(c, func(context.Context) Answer { return Answer{Value: value, Err: err} })
	case frame.CallTimer:
		s.alarms.add(c.step, c.Args)
	default:
		s.fly(c, func(context.Context) Answer {
			return Answer{Err: &runtime.Error{Code: runtime.CodeInvalidInput, Msg: "there is no such kind of call"}}
		})
	}
}

// asks reports whether a person is asked before an action, as far as it is known.
func (s *session) asks(a *runtime.Action) bool {
	return s.r.o.Asks != nil && s.r.o.Asks(&s.who, a)
}

// flight is work outside of the session's goroutine.
type flight struct {
	step int
	ctx  context.Context
	work func(ctx context.Context) Answer
}

// fly does work outside of the session's goroutine. Who has done some waits for more:
// a goroutine that is new grows its stack again in every call.
func (s *session) fly(c *call, work func(ctx context.Context) Answer) {
	ctx, cancel := context.WithCancel(s.live)
	s.flying[c.step] = cancel
	f := flight{c.step, ctx, work}
	select {
	case s.crew <- f:
	default:
		go f.pilot(s.live, s.crew, s.answers)
	}
}

// pilot does the work, and then that of others until the session's worker is gone.
func (f flight) pilot(live context.Context, crew <-chan flight, to chan<- answered) {
	for {
		to <- answered{f.step, f.fly()}
		select {
		case f = <-crew:
		case <-live.Done():
			return
		}
	}
}

// fly does the work. What panics in it fails one call, and no more.
func (f flight) fly() (a Answer) {
	var err error
	defer func() {
		if err != nil {
			a = Answer{Err: runtime.AsError(err)}
		}
	}()
	defer runtime.Contain(&err)
	return f.work(f.ctx)
}

// invoke makes the call of a tool. Where its question was asked before, nothing
// is sent unless a person said yes.
func (s *session) invoke(c *call) {
	inv := Invocation{
		Caller: s.caller, Execution: s.id, Step: c.step, Allow: s.tools.allow, MaxAnswer: s.r.o.Limits.Result,
	}
	s.aim(c, &inv)
	approval, ask := c.Approval, s.question(c)
	s.fly(c, func(ctx context.Context) Answer {
		if answer, held := ask(ctx); held {
			return answer
		}
		answer := s.r.o.Invoke(ctx, inv)
		answer.vain = approval != "" && answer.Err != nil && answer.Err.ApprovalID == approval
		return answer
	})
}

// aim finds the action of a call and reads its arguments; what is wrong with
// either is a refusal, which is recorded like any other request.
func (s *session) aim(c *call, inv *Invocation) {
	action, unknown := s.tools.find(c.Path)
	if unknown != nil {
		inv.Ref, inv.Refusal = runtime.Ref(clip(c.Path)), unknown
		c.Ref = inv.Ref
		return
	}
	c.action, c.Ref, c.idempotent = action, action.Ref, action.Idempotent
	inv.Ref, inv.Action = action.Ref, action
	if !s.tools.allowed(action.Ref) {
		inv.Refusal = notAllowed(action.Ref, s.tools.allow)
		return
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(c.Args)))
	decoder.UseNumber()
	if c.Args == "" || c.Args == "null" {
		inv.Args = runtime.Args{}
	} else if err := decoder.Decode(&inv.Args); err != nil {
		inv.Refusal = &runtime.Error{
			Code: runtime.CodeInvalidInput, Stage: runtime.StageResolve,
			Msg:  fmt.Sprintf("a tool takes one object of arguments, and %s got something else", action.Ref),
			Hint: fmt.Sprintf("write tools.%s({name: value})", toolPath(action)),
		}
	}
}

func clip(text string) string {
	if len(text) > 200 {
		return text[:200]
	}
	return text
}

// drop takes note of the end of a call that nobody waits for any more.
func (s *session) drop(a answered) {
	if cancel := s.flying[a.step]; cancel != nil {
		cancel()
		delete(s.flying, a.step)
	}
	c := s.calls[a.step-1]
	decided := c.Status == CallPending && (a.answer.Err == nil || a.answer.Err.ApprovalID != c.Approval)
	if !c.Replied && (c.Status == "" || decided) && c.Kind == frame.CallTool {
		c.Status, c.Millis = CallCanceled, time.Since(c.began).Milliseconds()
	}
}

// settle takes the answer of a call: it is held for a person, or replied to the
// worker.
func (s *session) settle(a answered) *frame.Done {
	s.flying[a.step]()
	delete(s.flying, a.step)
	c := s.calls[a.step-1]
	c.Millis += time.Since(c.began).Milliseconds()
	if e := a.answer.Err; e != nil && e.Code == runtime.CodeApprovalPending && e.ApprovalID != "" {
		c.vain = a.answer.vain
		if c.Approval == e.ApprovalID { // it was only asked how that stands, or tried in vain
			return nil
		}
		c.Approval, c.Expires, c.Status = e.ApprovalID, a.answer.Expires, CallPending
		c.Asked = fmt.Sprintf("%s needs a person's approval", c.Ref)
		if e.Rule != "" {
			c.Asked += fmt.Sprintf(" (rule %s)", e.Rule)
		}
		s.diary.changed(c)
		s.ask()
		return nil
	}
	s.answer(c, &a.answer)
	return nil
}

// answer takes the answer of a call, and replies it to the worker.
func (s *session) answer(c *call, a *Answer) {
	s.traffic -= c.size()
	s.result(c, a)
	s.traffic += c.size()
	c.Now = max(s.r.o.Clock().UnixMilli(), s.now)
	s.diary.settled++
	c.Settled = s.diary.settled
	s.diary.changed(c)
	if c.Kind == frame.CallTool && !c.idempotent {
		s.note() // what cannot be done again is written down at once
	}
	s.reply(c)
}

// reply sends a call's answer to the worker.
func (s *session) reply(c *call) {
	s.idle, s.alarms.turn, c.Replied = nil, time.Time{}, true
	s.said.reply(c)
	s.now = max(s.now, c.Now)
	s.post(&frame.ToWorker{Reply: &frame.Reply{Seq: c.step, Now: s.now, Value: c.Value, Error: c.Error}})
}

// feed replies what was recorded, in the order in which it was answered then, as
// far as the script has asked for it.
func (s *session) feed() {
	for len(s.order) > 0 && !s.past[s.order[0]] {
		c := s.calls[s.order[0]-1]
		s.order = s.order[1:]
		s.reply(c)
	}
	s.release()
}
