package crowd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/internal/crowd"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// place is a required sink that can be gone.
type place struct{ gone atomic.Bool }

func (*place) Name() string   { return "place" }
func (*place) Required() bool { return true }
func (*place) Close() error   { return nil }

func (p *place) Write(context.Context, string, [][]byte) error {
	if p.gone.Load() {
		return errors.New("gone")
	}
	return nil
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
		if err := trail.Tell(t.Context(), true); err != nil {
			t.Errorf("it is told again and again: %v", err)
		}
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
