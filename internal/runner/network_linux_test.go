package runner

import (
	"errors"
	"testing"

	"github.com/kimbap-run/kimbap/internal/runner/netns"
)

// Where the proxy of an isolated run cannot be served the reason is not the system's, and no
// advice to leave the isolation out belongs to it.
func TestWhoCannotServeAnIsolatedProgramSaysWhy(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		why := errors.New("no room for the trail")
		r := run(t, secretFolder(t), func(o *Options) {
			o.Isolate = &Isolation{Serve: func(*netns.Room) error { return why }}
		}, "echo", "ran")
		if !errors.Is(r.err, why) || r.out != "" {
			t.Errorf("%v, printed %q", r.err, r.out)
		}
	})
}
