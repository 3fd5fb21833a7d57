package classifier

import (
	"fmt"
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
	table, err := compileTable([]Route{route("a.any", "/**", 1), route("a.one", "/q/{b}", 2)})
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
		short, long := took(c.first+strings.Repeat(c.more, 1000)), time.Hour
		slow := func() bool { return long > 120*short+500*time.Millisecond }
		for looks := 0; looks < 5 && slow(); looks++ { // a machine that is busy may be slow more than once
			long = min(long, took(c.first+strings.Repeat(c.more, 48_000)))
		}
		if slow() {
			t.Errorf("48 times as much of %s%s takes %v, after %v", c.first, c.more, long, short)
		}
	}
}

// So does what stands behind a ";", however often some of it is decoded.
func TestParametersOfAPathAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	route := Route{
		Action: "a.one", Service: "a", Path: "/q/{b}", Methods: []string{"PUT"}, Schemes: []string{"https"}, Authorities: []string{"a.test:443"},
		Args: placeholders("/q/{b}"),
	}
	for i := range 60 {
		route.Args = append(route.Args,
			Arg{Name: fmt.Sprint("q", i), In: InQuery, Key: fmt.Sprintf("list_%d", i), Type: "array"},
			Arg{Name: fmt.Sprint("b", i), In: InBody, Key: fmt.Sprintf("/body_%d/x", i), Type: "array"})
	}
	table, err := compileTable([]Route{route})
	if err != nil {
		t.Fatal(err)
	}
	var pairs strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&pairs, "[%04d;", i)
	}
	took := func(end string) time.Duration {
		start := time.Now()
		if m, err := table.Match(Input{Scheme: "https", Authority: "a.test:443", Method: "PUT", Target: "/q/a;" + pairs.String() + end, Header: http.Header{}}); m.Action != "a.one" {
			t.Fatal(m, err)
		}
		return time.Since(start)
	}
	once, often := took(""), took("%25252525")
	slow := func() bool { return often > 5*once/2+50*time.Millisecond }
	for range 6 { // other tests take the processors for a while at a time
		if slow() {
			once, often = min(once, took("")), min(often, took("%25252525"))
		}
	}
	if slow() {
		t.Errorf("with an escape to be decoded four times it takes %v, after %v", often, once)
	}
}
