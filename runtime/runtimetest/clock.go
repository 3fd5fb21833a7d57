package runtimetest

import (
	"sync"
	"time"
)

// Clock is a clock that goes only when told to. It is safe for concurrent use.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	timers []timer
}

type timer struct {
	at time.Time
	c  chan time.Time
}

// NewClock returns a clock that stands at noon, UTC, on 2 January 2026.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// After returns a channel that gets the time once the clock was moved d ahead.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := timer{at: c.now.Add(d), c: make(chan time.Time, 1)}
	c.timers = append(c.timers, t)
	c.fire()
	return t.c
}

// Timers returns how many channels of After still wait.
func (c *Clock) Timers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// Advance moves the clock by d, back when d is negative, and fires what is due.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.fire()
}

func (c *Clock) fire() {
	waiting := c.timers[:0]
	for _, t := range c.timers {
		if t.at.After(c.now) {
			waiting = append(waiting, t)
		} else {
			t.c <- c.now
		}
	}
	c.timers = waiting
}
