package app_test

import (
	"context"
	"fmt"
	"testing"
)

// The head of an answer reaches its client although the upstream takes its time with what
// follows: a small body, or over HTTP/2 the end of one that is empty.
func TestAHeadDoesNotWaitForAnUpstreamThatPauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path             string
		client, upstream bool
	}{
		{"/paused-2", false, false}, {"/paused-2", false, true}, {"/paused-2", true, false}, {"/paused-2", true, true},
		{"/paused-0", false, true}, {"/paused-0", true, true},
	} {
		for _, engine := range []string{"relay", "std"} {
			t.Run(fmt.Sprintf("%s, client h2 %v, upstream h2 %v, engine %s", c.path, c.client, c.upstream, engine), func(t *testing.T) {
				t.Parallel()
				p := newPairing(t, c.client, c.upstream, "proxy: {engine: "+engine+"}\n")
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				resp, err := p.do(t, ctx, "GET", c.path, "")
				close(p.seen)
				if err != nil {
					t.Fatal(err)
				}
				want := map[string]string{"/paused-0": "", "/paused-2": "ok"}[c.path]
				if body := whole(t, resp, err); body != want {
					t.Errorf("%s %q", resp.Status, body)
				}
			})
		}
	}
}
