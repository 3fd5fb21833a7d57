package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// In a bubble the time is the test's own.
func TestOnlyRunningTimeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var ended time.Duration
		var c clock
		c.resume()
		c.stop() // without a limit both do nothing
		c.limit(10*time.Second, func() { ended = time.Since(begin) })
		time.Sleep(4 * time.Second)
		c.stop()
		c.stop()
		time.Sleep(time.Hour)
		c.resume()
		c.resume()
		time.Sleep(5 * time.Second)
		c.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		if ended != 0 {
			t.Errorf("it ended after %v with a second left", ended)
		}
		c.resume()
		time.Sleep(time.Minute)
		synctest.Wait()
		if want := 2*time.Hour + 10*time.Second; ended != want {
			t.Errorf("it ended after %v, want %v", ended, want)
		}
	})
}

func TestALimitStartsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var ended []time.Duration
		var c clock
		expired := func() { ended = append(ended, time.Since(begin)) }
		c.limit(time.Second, expired)
		c.limit(time.Minute, expired)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(ended) != 1 || ended[0] != time.Minute {
			t.Errorf("it ended at %v, want once, after a minute", ended)
		}
	})
}
