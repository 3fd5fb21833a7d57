package review_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/review"
)

// parsed is a service with these lines behind its head.
func parsed(t *testing.T, lines string) *services.Service {
	t.Helper()
	s, err := services.Parse("notes.yaml", []byte("name: notes\nversion: 1.0.0\nbase_url: https://notes.example\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A key that is linked by an alias is this service's.
func TestAReviewNamesTheAliases(t *testing.T) {
	t.Parallel()
	s := parsed(t, "aliases: [jot, pad]\nactions: {list: {method: GET, path: /notes}}\n")
	if got := review.Of(s, nil, [32]byte{}).Text(); !strings.HasPrefix(got, "aliases  jot, pad: kimbap link takes these for it too\n") {
		t.Errorf("got %s", got)
	}
}
