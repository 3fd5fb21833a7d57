package worker

import (
	"sync"
	"time"
)

// clock measures the running time of one script and says once when it is over.
// Stopped time does not count. The zero clock has no limit.
type clock struct {
	mu      sync.Mutex
	left    time.Duration
	timer   *time.Timer // nil: stopped, or no limit
	since   time.Time   // when timer was started
	limited bool
	expired func()
}

// limit starts the clock anew, with this much time; expired is called in a
// goroutine of its own.
func (c *clock) limit(d time.Duration, expired func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halt()
	c.left, c.limited, c.expired = d, true, expired
	c.run()
}

// stop halts the clock; resume lets it go on. Either may be called again.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.halt()
}

func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run()
}

func (c *clock) halt() {
	if c.timer == nil {
		return
	}
	c.timer.Stop()
	c.timer = nil
	c.left -= time.Since(c.since)
}

func (c *clock) run() {
	if c.timer != nil || !c.limited {
		return
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(max(0, c.left), c.expired)
}
