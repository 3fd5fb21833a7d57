package probe

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/runner"
)

// What upstream and proxy saw of a client decides what is said of it, not what the
// client says of itself; and what can be mended says how.
func TestWhatWasSeenDecides(t *testing.T) {
	p := runner.Probe{Name: "client", Around: "set the proxy", CA: "set the CA"}
	for _, c := range []struct {
		code    int
		arrived bool
		saw     Saw
		state   string
		fix     string
	}{
		{0, true, Saw{1, 1, 0}, "ok", ""},
		{1, true, Saw{1, 1, 0}, "ok", ""}, // it failed for reasons of its own
		{runner.NotHere, false, Saw{}, "missing", ""},
		{0, false, Saw{}, "around", "set the proxy"},
		{1, false, Saw{1, 0, 0}, "untrusted", "set the CA"},
		{1, false, Saw{1, 2, 2}, "untrusted", "set the CA"},
		{1, false, Saw{1, 2, 1}, "failed", "kimbap -v run -- client …, which shows requests"},
	} {
		var out Probed
		judge(&out, p, c.code, c.arrived, c.saw, "starting\nError: no way\nbye\n")
		if out.State != c.state || out.Fix != c.fix || c.fix != "" && !strings.HasSuffix(out.Said, "Error: no way") {
			t.Errorf("%+v: %+v", c, out)
		}
	}
}
