package crowd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// place is a required sink that can be gone, or hang.
type place struct {
	gone  atomic.Bool
	hangs chan struct{} // told of a write that waits for ends; nil: none does
	ends  chan struct{}
}

func (*place) Name() string   { return "place" }
func (*place) Required() bool { return true }
func (*place) Close() error   { return nil }

func (p *place) Write(context.Context, string, [][]byte) error {
	if p.hangs != nil {
		p.hangs <- struct{}{}
		<-p.ends
	}
	if p.gone.Load() {
		return errors.New("gone")
	}
	return nil
}

// Who tells how many were left out has other things to do, such as following a lock: it waits
// for no sink that hangs.
func TestTheCountWaitsForNoSink(t *testing.T) {
	p := &place{hangs: make(chan struct{}), ends: make(chan struct{})}
	o := audittest.Options(t.TempDir())
	o.Sinks = []outlet.Sink{p}
	log := audittest.Open(t, o)
	trail := crowd.New(log, runtimetest.NewClock().Now)
	go func() { _ = trail.Intent(context.Background(), audittest.Record("req_1")) }()
	<-p.hangs
	go func() {
		for range p.hangs { // what comes after it
		}
	}()
	for range 60 {
		trail.Outcome(&runtime.Record{Surface: runtime.SurfaceProxy, Err: &runtime.Error{Code: runtime.CodeUnauthenticated}})
	}
	told := make(chan struct{})
	go func() { trail.Tell(true); close(told) }()
	select {
	case <-told:
	case <-time.After(10 * time.Second):
		t.Error("it waits for the sink")
	}
	close(p.ends)
	audittest.Shut(t, log)
	if lines := strings.Join(audittest.Lines(t, o.Dir), "\n"); !strings.Contains(lines, `"refused":"10"`) {
		t.Errorf("nobody is told:\n%s", lines)
	}
}

// A flood that goes on is counted as it goes on: every minute, and not only if the look and the
// first refusal of a window happen to meet.
func TestASteadyFloodIsCountedAsItGoesOn(t *testing.T) {
	clock, o := runtimetest.NewClock(), audittest.Options(t.TempDir())
	log := audittest.Open(t, o)
	trail := crowd.New(log, clock.Now)
	const second, minutes = 20, 10
	for i := range minutes * 60 * second {
		trail.Outcome(&runtime.Record{Surface: runtime.SurfaceProxy, Err: &runtime.Error{Code: runtime.CodeUnauthenticated}})
		clock.Advance(time.Second / second)
		if i%5 == 2 { // four looks in a second
			trail.Tell(false)
		}
	}
	audittest.Shut(t, log)
	lines := strings.Join(audittest.Lines(t, o.Dir), "\n")
	if told := strings.Count(lines, `"event":"callers.refused"`); told < minutes-1 || told > minutes {
		t.Errorf("told of %d times in %d minutes", told, minutes)
	}
	if alone := strings.Count(lines, `"kind":"refusal"`); alone != minutes*50 {
		t.Errorf("%d refusals stand by themselves", alone)
	}
}

// While a required sink is gone, whoever asks without end fills no disk: so many refusals
// stand in the trail, and one event counts the rest, once, while the sink is gone still.
func TestRequestsWhileASinkIsGoneAreCounted(t *testing.T) {
	p, clock := &place{}, runtimetest.NewClock()
	o := audittest.Options(t.TempDir())
	o.Sinks, o.After = []outlet.Sink{p}, clock.After
	log := audittest.Open(t, o)
	trail := crowd.New(log, clock.Now)
	audittest.Intents(t, log, 0, 1)
	p.gone.Store(true)
	known := audittest.Record("req_known")
	err := trail.Intent(t.Context(), known)
	if err == nil {
		t.Fatal("an intent passed without the sink")
	}
	known.Err = runtime.AsError(err)
	for i := range 200 {
		r := &runtime.Record{ID: fmt.Sprint("req_", i), Surface: runtime.SurfaceProxy, Err: runtime.AsError(trail.Ready())}
		trail.Outcome(r)
		trail.Outcome(&runtime.Record{ID: fmt.Sprint("of_", i), Surface: runtime.SurfaceProxy, Err: known.Err, Principal: known.Principal})
	}
	for range 3 {
		trail.Tell(true)
	}
	audittest.Shut(t, log)
	lines := strings.Join(audittest.Lines(t, o.Dir), "\n")
	if n := strings.Count(lines, `"id":"req_`); n != 52 || strings.Count(lines, `"event":"requests.refused"`) != 1 || !strings.Contains(lines, `"refused":"150"`) {
		t.Errorf("%d refusals of nobody knows whom:\n%s", n, lines)
	}
	if n := strings.Count(lines, `"id":"of_`); n != 200 {
		t.Errorf("of a caller that is known %d", n)
	}
}
