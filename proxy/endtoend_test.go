package proxy

import (
	"net/http"
	"strings"
	"testing"
)

// RFC 9110 section 10.1.4: a caller that takes trailers says so in any case of letters.
func TestOfTETrailersStays(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string
	}{
		{[]string{"trailers"}, "trailers"},
		{[]string{"Trailers"}, "trailers"},
		{[]string{"gzip;q=0.5", "deflate, TRAILERS"}, "trailers"},
		{[]string{"gzip"}, ""},
	} {
		h := http.Header{"Te": c.values, "Connection": {"TE"}}
		changed := endToEnd(h)
		if got := strings.Join(h["Te"], "|"); got != c.want || h["Connection"] != nil || len(changed) != 2 {
			t.Errorf("TE %q: %q, %v", c.values, got, changed)
		}
	}
}
