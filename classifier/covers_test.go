package classifier

import (
	"slices"
	"testing"
)

func TestARouteCoversWhatIsNarrower(t *testing.T) {
	for _, c := range []struct {
		wide, narrow string
		want, back   bool
	}{
		{"/keys/{id}", "/keys/{key}", true, true},
		{"/keys/{id}", "/keys/{id:int}", true, false},
		{"/keys/{id}", "/keys/new", true, false},
		{"/keys/{id:int}", "/keys/7", true, false},
		{"/keys/{id:int}", "/keys/new", false, false},
		{"/keys/{id}", "/keys/{id}:rotate", true, false},
		{"/keys/{id}:rotate", "/keys/7:rotate", true, false},
		{"/keys/{id}:rotate", "/keys/{id}:read", false, false},
		{"/keys/{id}", "/keys/", false, false},
		{"/keys/{id}", "/keys/{id}/x", false, false},
		{"/keys/{id...}", "/keys/{id}/x", true, false},
		{"/keys/**", "/keys/{id...}", true, false},
		{"/**", "/keys", true, false},
		{"/keys", "/notes", false, false},
	} {
		a, b := get("a", "x.a", c.wide), get("b", "x.b", c.narrow)
		if got, back := a.Covers(&b), b.Covers(&a); got != c.want || back != c.back {
			t.Errorf("%s of %s: %v, %v", c.wide, c.narrow, got, back)
		}
	}
	fields := func(list ...string) Discriminators {
		return Discriminators{GraphQL: &GraphQL{Type: "mutation", Fields: list}}
	}
	for name, c := range map[string]struct{ wide, narrow Discriminators }{
		"fewer conditions": {Discriminators{}, Discriminators{Query: map[string]string{"a": "1"}}},
		"more values":      {Discriminators{Query: map[string]string{"a": "1|2"}}, Discriminators{Query: map[string]string{"a": "1"}}},
		"more fields":      {fields("add*", "grant*"), fields("grant*")},
	} {
		a, b := with(get("a", "x.a", "/p"), c.wide), with(get("b", "x.b", "/p"), c.narrow)
		if !a.Covers(&b) || b.Covers(&a) {
			t.Errorf("%s: %v, %v", name, a.Covers(&b), b.Covers(&a))
		}
	}
}

func TestAnActionIsEasedByWhatIsNarrower(t *testing.T) {
	at := func(action, path string, rank int, more Discriminators) Route {
		r := with(get(action, action, path), more)
		r.Rank = rank
		return r
	}
	none, some := Discriminators{}, Discriminators{Query: map[string]string{"a": "1"}}
	old := []Route{at("x.all", "/**", 1, none), at("x.key", "/keys/{id}", 4, none), at("x.first", "/keys/1", 0, none)}
	for _, c := range []struct {
		now  Route
		want bool
	}{
		{at("x.easy", "/keys/{id:int}", 0, none), true},
		{at("x.easy", "/keys/{id}", 0, some), true},
		{at("x.easy", "/keys/{id:int}", 4, none), false},
		{at("x.easy", "/keys/1", 0, some), false},    // so it was
		{at("x.easy", "/keys/{id}", 0, none), false}, // the same requests
		{at("x.easy", "/notes", 0, none), true},
		{at("x.easy", "/notes", 1, none), false},
	} {
		if got := slices.Contains(Eased(append([]Route{c.now}, old...), old), "x.easy"); got != c.want {
			t.Errorf("%s %v of rank %d: %v", c.now.Path, c.now.Match.Query, c.now.Rank, got)
		}
	}
}
