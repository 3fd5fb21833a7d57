package trial

import "testing"

// Two long numbers that are one float are two; one number in two spellings is one.
func TestNumbersAreComparedAsTheyAre(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"id":9007199254740993}`, `{"id":9007199254740992}`, false},
		{`[9007199254740993]`, `[9007199254740993]`, true},
		{`1`, `1.0`, true}, {`1e2`, `100`, true}, {`{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{`1`, `2`, false}, {`1`, `1 1`, false}, {`1`, `"1"`, false},
	} {
		if got := sameJSON([]byte(c.a), []byte(c.b)); got != c.same {
			t.Errorf("%s and %s: same %v", c.a, c.b, got)
		}
	}
}
