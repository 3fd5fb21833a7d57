package system_test

import (
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A machine that slept is as much older as the wall says, and a clock that was set back makes
// nothing younger.
func TestTheClockThatSaysMoreCounts(t *testing.T) {
	began := time.Now()
	for _, c := range []struct {
		name string
		now  time.Time
		want time.Duration
	}{
		{"nothing", began, 0},
		{"an hour awake", began.Add(time.Hour), time.Hour},
		{"a night asleep", runtimetest.Asleep(began, 8*time.Hour), 8 * time.Hour},
		{"an hour awake, and the clock set back", runtimetest.Asleep(began.Add(time.Hour), -24*time.Hour), time.Hour},
		{"without a monotonic reading", began.Round(0).Add(time.Minute), time.Minute},
	} {
		if got := system.Elapsed(began, c.now); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A clock that is set, either way, moves no moment.
func TestAMomentIsNotTheWalls(t *testing.T) {
	began := time.Now()
	if system.Moment(began) <= 0 {
		t.Errorf("it is %d", system.Moment(began))
	}
	for _, set := range []time.Duration{0, -time.Hour, 24 * time.Hour} {
		later := runtimetest.Asleep(began.Add(time.Second), set)
		if got := system.Moment(later) - system.Moment(began); got != int64(time.Second) {
			t.Errorf("set by %s: a second is %s", set, time.Duration(got))
		}
	}
}
