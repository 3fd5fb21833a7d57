package app_test

import (
	"fmt"
	"path/filepath"
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
	rigged := func(config string) *apptest.Kimbap { // goes on with upstream
		return apptest.New(t, apptest.Options{Config: config, Upstream: servicestest.Options{Routes: map[string]servicestest.Behave{
			"/notes": func(c *servicestest.Conn, _ *servicestest.Request) bool {
				return c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: rice\r\nContent-Length: %d\r\n\r\n%s", len(packed), packed))
			},
		}}})
	}
	look := func(k *apptest.Kimbap, what string, passes bool) {
		t.Helper()
		mark := k.Mark(t)
		a := apptest.Send(t, k.Client(t, ""), "GET https://"+apptest.Host+"/notes", "")
		record := k.Await(t, mark, 2)[1].Line // behind the intent
		switch {
		case passes && (a.Status != 200 || a.Body != packed || !strings.Contains(record, `"unscanned":true`)):
			t.Errorf("%s: %d %q, recorded %s", what, a.Status, a.Body, record)
		case !passes && (a.Status != 502 || a.Problem.Reason != "scrub_impossible" || !strings.Contains(a.Body, "upstream.scrub") || strings.Contains(a.Body, packed)):
			t.Errorf("%s: %d %q", what, a.Status, a.Body)
		}
	}
	for config, passes := range map[string]bool{"": true, "  scrub: best_effort\n": true, "  scrub: strict\n": false} {
		look(rigged(config), fmt.Sprintf("with %q", config), passes)
	}
	k := rigged("")
	text, owner := string(mustRead(t, filepath.Join(k.Dir, "config.yaml"))), k.Open(t, "")
	for _, scrub := range []string{"strict", "best_effort"} {
		k.Write(t, "config.yaml", strings.Replace(text, "upstream:\n", "upstream:\n  scrub: "+scrub+"\n", 1))
		reach(t, owner)
		look(k, "changed while it ran, to "+scrub, scrub != "strict")
	}
}
