package sandbox

import (
	"fmt"
	"slices"
	"time"

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
		if s.flying[c.step] == nil && !slices.Contains(s.later, c) {
			s.begin(c)
		}
	}
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
