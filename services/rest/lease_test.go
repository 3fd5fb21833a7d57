package rest

import (
	"net/http"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// What an upstream says of how long it keeps a connection holds with a margin, and
// until it says something else.
func TestALeaseEndsBeforeTheConnectionDoes(t *testing.T) {
	type said = []string
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		answers []said
		quiet   time.Duration // -1: the connection takes nothing more, 0: nothing was said
	}{
		{[]said{nil}, 0},
		{[]said{{"timeout=5"}}, 4 * time.Second},
		{[]said{{"timeout=5, max=100"}}, 4 * time.Second},
		{[]said{{"max=7", " TIMEOUT = \"60\" "}}, 59 * time.Second},
		{[]said{{"timeout=1"}}, 500 * time.Millisecond},
		{[]said{{"timeout=0"}}, -1},
		{[]said{{"timeout=5"}, nil, nil}, 4 * time.Second},
		{[]said{{"timeout=5"}, {"timeout=30"}}, 29 * time.Second},
		{[]said{{"timeout=2000000000"}}, longestLease - time.Second},
		{[]said{{"timeout=-1, max=-1"}, {"timeout", "max=", "x=3, =", "timeout=99999999999999999999"}}, 0},
		{[]said{{"max=2"}, nil}, 0},
		{[]said{{"max=2"}, nil, nil}, -1},
		{[]said{{"max=1"}, {"max=0"}}, -1},
		{[]said{{"max=1"}, {"max=1"}}, 0},
	} {
		var l lease
		for _, fields := range c.answers {
			l.renew(http.Header{"Keep-Alive": fields})
		}
		end, over := l.until(now)
		if got := end.Sub(now); over != (c.quiet < 0) || c.quiet > 0 && got != c.quiet || c.quiet == 0 && !end.IsZero() {
			t.Errorf("%q: until %v, over %v; want %v", c.answers, got, over, c.quiet)
		}
	}
}

// A wire is not lent in the last moment of its lease, however still it is.
func TestNoWireIsLentInItsLastMoment(t *testing.T) {
	now := time.Now()
	r := racks{clock: func() time.Time { return now }}
	defer r.empty()
	s := spot{scheme: "http", origin: origin{authority: "a.test:80"}}
	w, far := kept(t, s, 0)
	w.lease.renew(http.Header{"Keep-Alive": {"timeout=5"}})
	r.put(w)
	now = now.Add(4*time.Second - time.Millisecond)
	if r.take(s) != w {
		t.Fatal("a wire was not lent in its time")
	}
	r.put(w) // its time begins anew
	now = now.Add(4 * time.Second)
	if r.take(s) != nil || !ended(far) {
		t.Error("a wire was lent in its last moment, or stays open")
	}
	last, gone := kept(t, s, 0)
	last.lease.renew(http.Header{"Keep-Alive": {"max=0"}})
	r.put(last)
	if r.take(s) != nil || !ended(gone) || r.kept.Load() != 0 {
		t.Error("a wire that takes nothing more was kept")
	}
}

// A wire that lay still while the machine slept is not lent: the timer that closes it stood still
// as well, and its end says nothing where it was forgotten on the way.
func TestNoWireIsLentAfterANight(t *testing.T) {
	now := time.Now()
	r := racks{clock: func() time.Time { return now }}
	defer r.empty()
	s := spot{scheme: "http", origin: origin{authority: "a.test:80"}}
	for _, c := range []struct {
		name, lease string
		slept       time.Duration
		lent        bool
	}{
		{"a moment", "", keptIdle - time.Second, true},
		{"a night", "", 8 * time.Hour, false},
		{"longer than the upstream keeps it", "timeout=5", 5 * time.Second, false},
	} {
		w, far := kept(t, s, 0)
		w.lease.renew(http.Header{"Keep-Alive": {c.lease}})
		r.put(w)
		now = runtimetest.Asleep(now, c.slept)
		if got := r.take(s); (got == w) != c.lent || !c.lent && !ended(far) {
			t.Errorf("%s: lent: %v", c.name, got == w)
		}
	}
}
