package sandbox

import (
	"slices"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// hear takes one message of the worker. It is not believed: what does not fit
// ends the script.
func (s *session) hear(m *frame.ToHost) *frame.Done {
	switch {
	case m == nil:
		return &frame.Done{Failure: s.lost()}
	case m.Call != nil:
		if failure := s.called(m.Call); failure != nil {
			return &frame.Done{Failure: failure}
		}
		if m.Idle != nil {
			return s.waits(m.Idle)
		}
	case m.Log != nil:
		s.logged += len(m.Log.Message) + len(m.Log.Level)
		if s.logged > 2*s.r.o.Limits.Logs || len(s.logs) > s.r.o.Limits.Logs {
			return &frame.Done{Failure: offProtocol()}
		}
		s.logs = append(s.logs, *m.Log)
	case m.Idle != nil:
		return s.waits(m.Idle)
	case m.Done != nil:
		return s.doneBy(m.Done)
	default:
		return &frame.Done{Failure: offProtocol()}
	}
	return nil
}

// doneBy checks the last message of a worker.
func (s *session) doneBy(done *frame.Done) *frame.Done {
	if failed := done.Failure; failed != nil && !slices.Contains(workerKinds(), failed.Kind) {
		return &frame.Done{Failure: offProtocol()}
	}
	if len(done.Value) > s.r.o.Limits.Result || len(s.order) > 0 {
		if len(s.order) > 0 {
			return &frame.Done{Failure: diverged("it ended before its recorded calls were answered")}
		}
		return &frame.Done{Failure: offProtocol()}
	}
	return done
}

// workerKinds are the endings that a worker may report.
func workerKinds() []frame.Kind {
	return []frame.Kind{frame.KindException, frame.KindTimeout, frame.KindMemory, frame.KindStack, frame.KindCalls, frame.KindDeadlock}
}

// waits takes note that the worker is idle, unless a reply is on its way to it.
func (s *session) waits(idle *frame.Idle) *frame.Done {
	if idle.Heard < s.said.replies {
		return nil // said before it had our reply
	}
	if idle.Heard > s.said.replies || len(idle.Waiting) > s.said.open {
		return &frame.Done{Failure: offProtocol()}
	}
	for _, step := range idle.Waiting {
		if step < 1 || step > len(s.calls) || s.past[step] || s.calls[step-1].Replied {
			return &frame.Done{Failure: offProtocol()}
		}
	}
	if len(s.order)+len(s.past) > 0 {
		return &frame.Done{Failure: diverged("it waits, and a call that was recorded has not come")}
	}
	s.idle, s.timers = idle, idle.Timers
	return nil
}

// stuck reports whether the script waits for people only. What it does not wait
// for, as a timer that it has cleared, does not count; but a call that is under way would be
// begun a second time behind the pause, so that counts whatever the worker says.
func (s *session) stuck() bool {
	if s.idle == nil || s.idle.Timers || len(s.flying) > 0 {
		return false
	}
	for _, step := range s.idle.Waiting {
		c := s.calls[step-1]
		if c.Approval == "" || c.Replied || slices.Contains(s.later, c) {
			return false
		}
	}
	return len(s.idle.Waiting) > 0
}

// lost says why the worker is gone.
func (s *session) lost() *frame.Failure {
	failure, _ := s.worker.Ended()
	return &failure
}

func offProtocol() *frame.Failure {
	return &frame.Failure{Kind: frame.KindInterrupted, Message: "the script's process broke off the conversation"}
}

func diverged(why string) *frame.Failure {
	return &frame.Failure{Kind: frame.KindInterrupted, Message: "the script did not repeat what it did before: " + why}
}
