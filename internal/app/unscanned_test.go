package app_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// An answer in an encoding that nobody knows passes and is recorded as not searched; where
// the owner is strict, none of it passes, and the refusal says which setting it was.
func TestAnswersThatCannotBeSearched(t *testing.T) {
	t.Parallel()
	const packed = "an answer in an encoding of its own"
	for config, passes := range map[string]bool{"": true, "  scrub: best_effort\n": true, "  scrub: strict\n": false} { // goes on with upstream
		k := apptest.New(t, apptest.Options{Config: config, Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
			"/notes": func(c *servicestest.Conn, _ *servicestest.Request) bool {
				return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: rice\r\nContent-Length: %d\r\n\r\n%s", len(packed), packed))
			},
		}}})
		a := apptest.Send(t, k.Client(t, ""), "GET https://"+apptest.Host+"/notes", "")
		record := k.Await(t, nil, 2)[1].Line // behind the intent
		if passes {
			if a.Status != 200 || a.Body != packed || !strings.Contains(record, `"unscanned":true`) {
				t.Errorf("with %q: %d %q, recorded %s", config, a.Status, a.Body, record)
			}
			continue
		}
		if a.Status != 502 || a.Problem.Reason != "scrub_impossible" || !strings.Contains(a.Body, "upstream.scrub") || strings.Contains(a.Body, packed) {
			t.Errorf("with %q: %d %q", config, a.Status, a.Body)
		}
	}
}
