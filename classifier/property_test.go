package classifier

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Few words make for many collisions.
func anyPattern(t *rapid.T) string {
	var out strings.Builder
	n := rapid.IntRange(1, 4).Draw(t, "segments")
	for i := range n {
		kinds := []string{"a", "b", "1", fmt.Sprintf("{p%d}", i), fmt.Sprintf("{p%d:int}", i), fmt.Sprintf("{p%d}:do", i)}
		if i == n-1 {
			kinds = append(kinds, "**", fmt.Sprintf("{p%d...}", i), "")
		}
		out.WriteString("/" + rapid.SampledFrom(kinds).Draw(t, "segment"))
	}
	return out.String()
}

func anyRequest(t *rapid.T) Input {
	var out strings.Builder
	n := rapid.IntRange(1, 5).Draw(t, "segments")
	for i := range n {
		words := []string{"a", "b", "c", "1", "22", "-3", "a:do", "1:do", "a:DO"}
		if i == n-1 {
			words = append(words, "")
		}
		out.WriteString("/" + rapid.SampledFrom(words).Draw(t, "segment"))
	}
	return Input{
		Scheme: "https", Authority: "api.test:443", Target: out.String() + rapid.SampledFrom([]string{"", "?k=1", "?k=2", "?k=1&k=2"}).Draw(t, "query"),
		Method: rapid.SampledFrom([]string{"GET", "HEAD", "POST"}).Draw(t, "method"),
	}
}

// anyRoutes draws routes and drops those that overlap earlier ones.
func anyRoutes(t *rapid.T) []Route {
	var routes []Route
	for i := range rapid.IntRange(0, 8).Draw(t, "routes") {
		r := get(fmt.Sprintf("file:%d", i), fmt.Sprintf("s.a%d", i), anyPattern(t))
		r.Methods = []string{rapid.SampledFrom([]string{"GET", "HEAD", "POST"}).Draw(t, "method")}
		if v := rapid.SampledFrom([]string{"", "1", "2", "*"}).Draw(t, "condition"); v != "" {
			r.Match.Query = map[string]string{"k": v}
		}
		if _, err := compileTable(append(routes[:len(routes):len(routes)], r)); err == nil {
			routes = append(routes, r)
		} else if overlap := (*OverlapError)(nil); !errors.As(err, &overlap) {
			t.Fatal(err)
		}
	}
	return routes
}

func compiledFor(t *rapid.T, routes []Route) *Table {
	table, err := compileTable(routes)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTheOrderOfRoutesDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := anyRoutes(t)
		shuffled := compiledFor(t, rapid.Permutation(routes).Draw(t, "order"))
		table, in := compiledFor(t, routes), anyRequest(t)
		m1, err1 := table.Match(in)
		m2, err2 := shuffled.Match(in)
		if !reflect.DeepEqual(m1, m2) || !reflect.DeepEqual(err1, err2) {
			t.Fatalf("%s %s: %+v, %v or %+v, %v", in.Method, in.Target, m1, err1, m2, err2)
		}
	})
}

func TestAddingARouteNeverLosesARequest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := anyRoutes(t)
		if len(routes) == 0 {
			return
		}
		in := anyRequest(t)
		before, err := compiledFor(t, routes[:len(routes)-1]).Match(in)
		if err != nil || before.Action == "" {
			return
		}
		added := routes[len(routes)-1].Action
		after, err := compiledFor(t, routes).Match(in)
		// It stays, goes to the added route, or is now too close to it to tell.
		if err == nil && after.Action != before.Action && after.Action != added {
			t.Fatalf("%s %s was %s, is %q after adding %s", in.Method, in.Target, before.Action, after.Action, added)
		}
	})
}

// TestTheMostSpecificWins compares the trie with the definition: of all routes
// whose pattern fits, the first in the order of their kinds, segment by segment.
func TestTheMostSpecificWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes, in := anyRoutes(t), anyRequest(t)
		m, err := compiledFor(t, routes).Match(in)
		if err != nil {
			return
		}
		if want := bySpecification(t, routes, in); m.Action != want {
			t.Fatalf("%s %s is %q, want %q", in.Method, in.Target, m.Action, want)
		}
	})
}

func bySpecification(t *rapid.T, routes []Route, in Input) string {
	best, bestRank := "", ""
	for _, r := range routes {
		path, query, _ := strings.Cut(in.Target[1:], "?")
		rank, ok := rankOf(t, r.Path, strings.Split(path, "/"))
		want := r.Match.Query["k"]
		value, given := strings.CutPrefix(query, "k=")
		if !ok || want == "*" && !given || want != "" && want != "*" && want != value {
			continue
		}
		switch {
		case r.Methods[0] == in.Method:
		case r.Methods[0] == "GET" && in.Method == "HEAD":
		default:
			continue
		}
		// Within one pattern: exact value, presence, no condition; then HEAD before GET.
		rank += map[string]string{"1": "x", "2": "x", "*": "y", "": "z"}[want] + map[bool]string{true: "1", false: "2"}[r.Methods[0] == in.Method]
		if best == "" || rank < bestRank {
			best, bestRank = r.Action, rank
		}
	}
	return best
}

// rankOf writes the kinds of a fitting pattern as a text that sorts the most
// specific one first.
func rankOf(t *rapid.T, pattern string, segments []string) (string, bool) {
	pieces, err := parsePattern(pattern)
	if err != nil {
		t.Fatal(err)
	}
	rank := ""
	for i, p := range pieces {
		if p.kind == any0 || p.kind == rest {
			return rank + "f", p.kind == any0 || i < len(segments)
		}
		if i >= len(segments) {
			return "", false
		}
		seg := segments[i]
		switch {
		case p.kind == literal && seg == p.text:
			rank += "b"
		case p.kind == custom && strings.HasSuffix(seg, p.verb) && seg != p.verb:
			rank += "c"
		case p.kind == typed && isInt(seg):
			rank += "d"
		case p.kind == variable && seg != "":
			rank += "e"
		default:
			return "", false
		}
	}
	return rank + "a", len(pieces) == len(segments)
}

// TestOneReadingOfATarget: whatever decoding an upstream makes of an accepted
// path, its segments are those that were matched.
func TestOneReadingOfATarget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{"/", ".", "..", "%2e", "%2E", "%252e", "%2f", "%5c", ";", "a", "%61", "%"}), 0, 8).Draw(t, "pieces")
		target := "/" + strings.Join(pieces, "")
		if CheckTarget(target) != nil {
			return
		}
		for text, i := target, 0; i < 4; i++ {
			for _, seg := range strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }) {
				seg, _, _ = strings.Cut(seg, ";")
				if seg == "." || seg == ".." {
					t.Fatalf("%q is accepted and reads %q after %d decodings", target, text, i)
				}
			}
			text = string(appendUnescaped(nil, text))
		}
	})
}
