package sandbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// waiting are the calls that wait for a person.
func (s *session) waiting() []*call {
	var out []*call
	for _, c := range s.calls {
		if c.Settled == 0 && c.Approval != "" {
			out = append(out, c)
		}
	}
	return out
}

// ask says what the script waits for, unless it waits for what was said last.
func (s *session) ask() {
	if s.asked == nil {
		return
	}
	held := s.waiting()
	if len(held) == 0 || slices.ContainsFunc(held, func(c *call) bool { return c.Approval == s.askedOf }) {
		return
	}
	s.askedOf = held[0].Approval
	s.asked(held[0].Approval, held[0].Expires)
}

// latest is when the last of the open questions expires.
func (s *session) latest() time.Time {
	at := s.r.o.Clock()
	for _, c := range s.waiting() {
		if c.Expires.After(at) {
			at = c.Expires
		}
	}
	return at
}

// look asks anew how the questions stand of a script that goes on meanwhile, as one with
// a timer does: a yes that comes in time is used at once, and not only when nothing else
// moves.
func (s *session) look() {
	if len(s.order)+len(s.past) > 0 {
		return
	}
	for _, c := range s.waiting() {
		switch {
		case s.flying[c.step] != nil, slices.Contains(s.later, c):
		case c.vain:
			s.lookAt(c)
		default:
			s.begin(c)
		}
	}
}

// question asks how that of a call stands, if it has one; held says that the call is not
// made now, or never, as the answer says.
func (s *session) question(c *call) func(context.Context) (a Answer, held bool) {
	caller, who, approval, open := s.caller, s.who, c.Approval, pending(c)
	return func(ctx context.Context) (Answer, bool) {
		if approval == "" {
			return Answer{}, false
		}
		isOpen, err := s.r.o.Approval(ctx, caller, who, approval, Now)
		switch {
		case verdict(err):
			return Answer{Err: runtime.AsError(err)}, true
		case isOpen, err != nil, ctx.Err() != nil: // or it is not known now
			return open, true
		}
		return Answer{}, false
	}
}

// pending is the answer of a call that its question holds back.
func pending(c *call) Answer {
	return Answer{Err: &runtime.Error{Code: runtime.CodeApprovalPending, ApprovalID: c.Approval, Msg: c.Asked}, Expires: c.Expires}
}

// lookAt asks how the question stands of a call that was tried in vain: only a no is an
// answer to it, since a yes was none.
func (s *session) lookAt(c *call) {
	c.began = time.Now()
	ask, open := s.question(c), pending(c)
	s.fly(c, func(ctx context.Context) Answer {
		answer, held := ask(ctx)
		if !held {
			answer = open
		}
		answer.vain = true
		return answer
	})
}

// undecided are the calls that a person has not decided on.
func (s *session) undecided() []*call {
	return slices.DeleteFunc(s.waiting(), func(c *call) bool { return c.Status != CallPending })
}

// leftOpen tells of the questions that are open when the script ends. They stay so: a yes
// is for the same call, whoever makes it again.
func leftOpen(asked []*call) string {
	var names []string
	for _, c := range asked {
		names = append(names, fmt.Sprintf("%s (%s)", c.Ref, c.Approval))
	}
	return fmt.Sprintf("the script has ended, and a person has not decided on %s: the same call, made again, uses a yes or waits for it", join(names))
}

// tooLong ends a script whose time is over. One that only a timer kept from being paused
// is told so.
func (s *session) tooLong() *frame.Failure {
	failure := tooLong(s.source.Timeout)
	if held := s.undecided(); s.timers && len(held) > 0 {
		failure.Message += fmt.Sprintf(": %s waits for a person (%s), and the script is not paused for that while it has timers", held[0].Ref, held[0].Approval)
	}
	return failure
}
