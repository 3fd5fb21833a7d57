package resource

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// Who comes after a stand-still waits for a look that began after it, and nobody else waits.
func TestWhoComesAfterAStandStillWaitsForALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pulse
		current := func() (bool, time.Duration) {
			began := time.Now()
			return p.Current(t.Context(), time.Minute), time.Since(began)
		}
		if ok, took := current(); !ok || took != 0 {
			t.Errorf("nobody keeps it, and somebody waits %s: %v", took, ok)
		}
		p.feel(time.Now())
		time.Sleep(stoodFor)
		if ok, took := current(); !ok || took != 0 {
			t.Errorf("it beats, and somebody waits %s: %v", took, ok)
		}
		before := p.Looks()
		time.Sleep(time.Hour) // which nothing beats in
		go func() {
			time.Sleep(time.Second)
			before() // read what was there before
			done := p.Looks()
			time.Sleep(time.Second)
			done()
		}()
		if ok, took := current(); !ok || took != 2*time.Second {
			t.Errorf("after a stand-still somebody waits %s: %v", took, ok)
		}
		if ok, took := current(); !ok || took != 0 {
			t.Errorf("after a look somebody waits %s: %v", took, ok)
		}
	})
}

// A stand-still that the pulse itself finds is one for all who come later. Where nobody looks
// the waiting ends, and so it does with the pulse.
func TestNobodyWaitsForALookForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var p Pulse
		ended := make(chan struct{})
		past := time.Now().Add(-time.Hour)
		p.beat.Store(&past)
		go func() { p.Keep(ctx); close(ended) }()
		synctest.Wait()
		time.Sleep(time.Minute) // which it beats in
		if p.Current(ctx, 3*time.Second) {
			t.Error("nobody has looked, and what is remembered is taken for new")
		}
		cancel()
		<-ended
		if !p.Current(t.Context(), time.Hour) {
			t.Error("it is kept no more, and somebody waits")
		}
	})
}

// A look that began before another stand-still lets nobody go on who waits, and no more does one
// in which the process stood still without anybody noticing yet.
func TestALookFromBeforeAnotherStandStillIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pulse
		p.feel(time.Now())
		time.Sleep(time.Hour)
		before := p.Looks() // which finds the first stand-still
		time.Sleep(time.Hour)
		waits := make(chan time.Duration)
		came := time.Now()
		go func() {
			p.Current(t.Context(), time.Minute)
			waits <- time.Since(came)
		}()
		synctest.Wait() // it has found the second one
		before()
		within := p.Looks()
		time.Sleep(2 * stoodFor) // which is one too
		within()
		p.Looks()()
		if took := <-waits; took != 2*stoodFor {
			t.Errorf("it went on after %s, with a look that had begun before", took)
		}
	})
}
