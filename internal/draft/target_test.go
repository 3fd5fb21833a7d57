package draft_test

import (
	"net/url"
	"testing"

	"github.com/kimbap-run/kimbap/internal/draft"
)

// No client sends what follows a #, so no rule is asked about it.
func TestATargetHasNoFragment(t *testing.T) {
	for written, want := range map[string]string{
		"https://a.test/x?y=1#top": "/x?y=1", "https://a.test/x#": "/x", "https://a.test/%23//x": "/%23//x",
		"https://a.test#top": "/", "https://me@a.test/x#top": "/x",
	} {
		u, err := url.Parse(written)
		if err != nil {
			t.Fatal(err)
		}
		if got := draft.Target(u, written); got != want {
			t.Errorf("%s: %q, want %q", written, got, want)
		}
	}
}
