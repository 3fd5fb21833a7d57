package sandbox

import (
	"cmp"
	"container/heap"
	"encoding/json"
	"time"
)

// maxDelay is the longest timer, in milliseconds.
const maxDelay = 24 * 60 * 60 * 1000

// alarm is a timer of a script that has not rung.
type alarm struct {
	step  int
	due   time.Time // its place among the others
	ready time.Time // it does not ring before
}

// alarms are the timers of a script, in one heap: those of one turn of the script ring by
// their delays, and where these are the same in the order in which they were set. The
// script has its turn until it says that it waits, and sets them all at one time.
type alarms struct {
	list  []alarm
	turn  time.Time // when the first one of this turn was set; zero: none was
	clock *time.Timer
	set   time.Time // what the clock is set to
}

// Len implements [heap.Interface], as do the others.
func (a *alarms) Len() int { return len(a.list) }

func (a *alarms) Less(i, j int) bool {
	x, y := a.list[i], a.list[j]
	return cmp.Or(x.due.Compare(y.due), x.step-y.step) < 0
}

func (a *alarms) Swap(i, j int) { a.list[i], a.list[j] = a.list[j], a.list[i] }

func (a *alarms) Push(x any) { a.list = append(a.list, x.(alarm)) }

func (a *alarms) Pop() any {
	last := len(a.list) - 1
	x := a.list[last]
	a.list = a.list[:last]
	return x
}

// add sets the timer of a step, to so many milliseconds.
func (a *alarms) add(step int, millis string) {
	var ms float64
	if json.Unmarshal([]byte(millis), &ms) != nil {
		ms = 0
	}
	delay, now := time.Duration(min(max(ms, 0), maxDelay)*float64(time.Millisecond)), time.Now()
	if a.turn.IsZero() {
		a.turn = now
	}
	heap.Push(a, alarm{step: step, due: a.turn.Add(delay), ready: now.Add(delay)})
}

// bell is ready when the next of them is; nil: there is none.
func (a *alarms) bell() <-chan time.Time {
	if len(a.list) == 0 {
		return nil
	}
	next := a.list[0].ready
	switch {
	case a.clock == nil:
		a.clock = time.NewTimer(time.Until(next))
	case !a.set.Equal(next):
		a.clock.Reset(time.Until(next))
	}
	a.set = next
	return a.clock.C
}

// take are the steps whose time has come, in their order.
func (a *alarms) take() (steps []int) {
	for now := time.Now(); len(a.list) > 0 && !a.list[0].ready.After(now); {
		steps = append(steps, heap.Pop(a).(alarm).step)
	}
	a.set = time.Time{}
	return steps
}

// stop forgets them all.
func (a *alarms) stop() {
	if a.clock != nil {
		a.clock.Stop()
	}
	*a = alarms{}
}

// bell is ready when a timer is that may ring now: none does in the middle of a turn of
// the script, which may yet set one that is to ring before it.
func (s *session) bell() <-chan time.Time {
	if s.idle == nil {
		return nil
	}
	return s.alarms.bell()
}

// ring answers the timers whose time has come.
func (s *session) ring() {
	for _, step := range s.alarms.take() {
		s.answer(s.calls[step-1], &Answer{})
	}
}
