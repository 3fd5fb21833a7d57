package classifier

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A path of many odd parts costs about what its length does: a target is as long as a head
// may be, and whoever sends one shares the processor with others.
func TestALongOddPathIsReadInItsLength(t *testing.T) {
	t.Parallel()
	route := func(action, path string, rank int) Route {
		return Route{
			Action: action, Service: "a", Path: path, Methods: []string{"PUT", "PATCH"}, Rank: rank, AllowSlash: true,
			Schemes: []string{"https"}, Authorities: []string{"a.test:443"},
		}
	}
	table, err := Compile([]Route{route("a.any", "/**", 1), route("a.one", "/q/{b}", 2)})
	if err != nil {
		t.Fatal(err)
	}
	took := func(target string) time.Duration {
		least := time.Hour
		for range 3 {
			start := time.Now()
			if m, err := table.Match(Input{Scheme: "https", Authority: "a.test:443", Method: "PUT", Target: target, Header: http.Header{}}); m.Action != "a.any" {
				t.Fatalf("%.20s: %v, %v", target, m, err)
			}
			least = min(least, time.Since(start))
		}
		return least
	}
	for _, c := range []struct{ first, more string }{
		{"/", "a;"}, {"/a;x", "/a"}, {"/a", "/a;"}, {"/a", "/a%253Bb"}, {"/a", "%3Fa"}, {"/a%3Fb", "%2Fa"}, {"/a%3F%", "25"}, {"/a", "/a%3Bb=c"},
	} {
		short, long := took(c.first+strings.Repeat(c.more, 1000)), took(c.first+strings.Repeat(c.more, 48_000))
		if long > 120*short+500*time.Millisecond {
			t.Errorf("48 times as much of %s%s takes %v, after %v", c.first, c.more, long, short)
		}
	}
}
