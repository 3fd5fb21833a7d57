package connector

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Commands are a process each: a provider that fails is left alone by all of them, as long as it asks
// for within bounds, and each is told of it in the same words.
func TestAProviderThatFailsIsLeftAloneByAll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fail func(p *provider)
		hint string
		long time.Duration
	}{
		"500":            {func(p *provider) { p.answer(500, "internal words") }, "try again in a moment", firstPause},
		"429":            {func(p *provider) { p.answer(429, "", "Retry-After", "7") }, "try again in a moment", 7 * time.Second},
		"429 for a day":  {func(p *provider) { p.answer(429, "", "Retry-After", "86400") }, "try again in a moment", longestWait},
		"another client": {func(p *provider) { p.answer(401, `{"error":"invalid_client"}`) }, "does not take the client", firstPause},
		"no answer": {func(p *provider) {
			p.instead = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, "try again in a moment", firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.fail(r.p)
			r.now.Advance(57 * time.Minute)
			for range 4 { // with a token that is still good
				if token, err := use(t, r.another(t)); token != "access-token-zero" {
					t.Fatal(err)
				}
			}
			if n := r.p.requests(); n != 1 {
				t.Errorf("near the end of the token: %d requests", n)
			}
			r.now.Advance(time.Hour)
			for range 4 {
				_, err := use(t, r.another(t))
				if err == nil || err.Code != runtime.CodeUpstream || err.Reason != runtime.ReasonOAuthRefreshFailed || !strings.Contains(err.Hint, c.hint) {
					t.Fatalf("%+v", err)
				}
				if err.RetryAfter < c.long || err.RetryAfter > 2*longestWait {
					t.Errorf("again after %v", err.RetryAfter)
				}
			}
			if n := r.p.requests(); n != 2 {
				t.Errorf("without a token: %d requests", n)
			}
			r.p.itself()
			r.now.Advance(c.long - time.Second)
			if _, err := use(t, r.another(t)); err == nil {
				t.Error("the provider is asked before its time")
			}
			r.now.Advance(longestWait)
			r.uses(t, "access-token-1")
			if g := r.s.stored(t); g.Paused != (pause{}) {
				t.Errorf("stored is still %+v", g.Paused)
			}
		})
	}
}

// The pauses grow whoever asks; a clock that is set back makes none of them longer.
func TestPausesOfManyProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.p.answer(503, "")
	r.now.Advance(2 * time.Hour)
	var pauses []time.Duration
	for range 6 {
		_, err := use(t, r.another(t))
		if err == nil {
			t.Fatal("it gives a token")
		}
		pauses = append(pauses, err.RetryAfter)
		r.now.Advance(err.RetryAfter)
	}
	if first, last := pauses[0], pauses[5]; first > 6*time.Second || last < longestWait || last > longestWait*6/5 || !slices.IsSorted(pauses[:3]) {
		t.Errorf("%v", pauses)
	}
	n := r.p.requests()
	_, _ = use(t, r.another(t))
	r.now.Advance(-30 * time.Minute)
	if _, err := use(t, r.another(t)); err == nil || r.p.requests() != n+2 {
		t.Errorf("%d more requests; %v", r.p.requests()-n, err)
	}
}

// A pause that cannot be stored is kept by the process that knows it, and is about the token of then: a
// later one is renewed at once.
func TestAPauseThatCannotBeStored(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.p.answer(503, "")
	r.s.fill(true)
	r.now.Advance(2 * time.Hour)
	for range 3 {
		if _, err := use(t, r.Connector); err == nil {
			t.Fatal("it gives a token")
		}
	}
	if n := r.p.requests(); n != 1 || r.s.stored(t).Paused != (pause{}) {
		t.Errorf("%d requests", n)
	}
	r.s.fill(false)
	anew := r.s.stored(t)
	anew.Obtained, anew.Expires = r.now.Now(), r.now.Now().Add(time.Minute)
	r.s.set(t, anew, 2)
	r.p.itself()
	r.now.Advance(time.Second)
	anew.Spent = true
	r.s.set(t, anew, 3)
	r.uses(t, "access-token-1")
}

// A process that could not store what it got does so also where another one has shown the refresh
// token of before meanwhile and was turned away: what that noted makes no other grant of it.
func TestWhatIsNotedOfAGrantDoesNotReplaceIt(t *testing.T) {
	t.Parallel()
	r := laden(t)
	r.s.fill(false)
	r.p.answer(503, "")
	if _, err := use(t, r.another(t)); err == nil || r.s.stored(t).Paused == (pause{}) {
		t.Fatalf("nothing is noted: %v", err)
	}
	r.p.itself()
	r.lasts(t, "refresh-token-1", "access-token-2")
}
