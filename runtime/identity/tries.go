package identity

import (
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// How many tokens that nobody knows one source may show in a window before it is
// told to wait, and of how many sources that is remembered.
const (
	mostTries   = 50
	triesWindow = 10 * time.Second
	mostSources = 1024
)

// tries counts, by source, the tokens that nobody knows. It only changes what a
// wrong token is told: one that is known passes whoever else is at its address,
// since on loopback all programs have one, and 256 random bits are not guessed.
type tries struct {
	mu sync.Mutex
	of map[string]*tried
}

// tried is what came from one source since a moment.
type tried struct {
	since time.Time
	wrong int
}

// late counts one try of the source and returns how long it is to wait, zero when
// it has not shown too many.
func (t *tries) late(source string, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[source]
	if one == nil {
		if source = t.room(source, now); t.of[source] == nil {
			t.of[source] = &tried{since: now}
		}
		one = t.of[source]
	}
	if age := now.Sub(one.since); age < 0 || age >= triesWindow {
		*one = tried{since: now}
	}
	if one.wrong++; one.wrong <= mostTries {
		return 0
	}
	return max(time.Second, triesWindow-now.Sub(one.since))
}

// room returns under which name a new source is counted: its own, or that of all
// for whom there is no room.
func (t *tries) room(source string, now time.Time) string {
	if t.of == nil {
		t.of = map[string]*tried{}
	}
	if len(t.of) < mostSources {
		return source
	}
	for name, one := range t.of {
		if now.Sub(one.since) >= triesWindow {
			delete(t.of, name)
		}
	}
	if len(t.of) < mostSources {
		return source
	}
	return "others"
}

// wrong is what a token is told that nobody knows.
func (i *Identity) wrong(source, msg string) error {
	wait := i.tries.late(source, i.now())
	if wait == 0 {
		return refused(runtime.ReasonTokenUnknown, msg)
	}
	return &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Stage: runtime.StageIdentify,
		Msg: "too many tokens that are not known here came from this address", RetryAfter: wait,
		Hint: "stop, and show a token that is valid: the owner makes one with: kimbap token create --agent NAME --scope GLOB",
	}
}
