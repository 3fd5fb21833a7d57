package object

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A name that stands twice is found in objects of any size, also where it is written
// in another way; the same name in another object is another.
func TestStrictFindsWhatStandsTwice(t *testing.T) {
	for n := 1; n <= 3*fewNames; n++ {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf(`"n%d":{"n0":[{"n0":1},{"n0":2}]}`, i)
		}
		whole := strings.Join(names, ",")
		if err := strict([]byte("{" + whole + "}")); err != nil {
			t.Fatalf("%d names: %v", n, err)
		}
		for _, again := range []string{`"n0"`, fmt.Sprintf(`"\u006e%d"`, n-1)} {
			if err := strict([]byte("{" + whole + "," + again + ":0}")); err == nil {
				t.Errorf("%d names and %s again: nothing was found", n, again)
			}
		}
	}
}

// What is drawn says itself whether a name stands twice: a scan that took a text for a
// name, or a bracket in a text for one of the object, would say otherwise.
func TestStrictFindsNothingElse(t *testing.T) {
	type text struct{ written, said string }
	texts := []text{{`"a"`, "a"}, {`"\u0061"`, "a"}, {`"b"`, "b"}, {`""`, ""}, {`"{"`, "{"}, {`"]:,\""`, `]:,"`}, {`"\\"`, `\`}, {`"\u005c"`, `\`}, {`"é"`, "é"}, {`"\u00e9"`, "é"}}
	var value func(r *rapid.T, depth int) (string, bool)
	value = func(r *rapid.T, depth int) (string, bool) {
		kind := rapid.IntRange(0, 5).Draw(r, "kind")
		if depth == 0 {
			kind = min(kind, 2)
		}
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(r, "space")
		switch kind {
		case 0:
			return rapid.SampledFrom([]string{"1", "-2.5e3", "null", "true"}).Draw(r, "plain"), false
		case 1, 2:
			return rapid.SampledFrom(texts).Draw(r, "text").written, false
		}
		object, twice := kind > 3, false
		seen := map[string]bool{}
		var parts []string
		for range rapid.IntRange(0, 3*depth).Draw(r, "members") {
			part, bad := value(r, depth-1)
			if object {
				name := rapid.SampledFrom(texts).Draw(r, "name")
				part = name.written + space + ":" + part
				bad = bad || seen[name.said]
				seen[name.said] = true
			}
			twice = twice || bad
			parts = append(parts, space+part)
		}
		if object {
			return "{" + strings.Join(parts, ",") + space + "}", twice
		}
		return "[" + strings.Join(parts, ",") + space + "]", twice
	}
	rapid.Check(t, func(r *rapid.T) {
		written, twice := value(r, 3)
		if !json.Valid([]byte(written)) {
			r.Fatalf("the test draws what is no JSON: %s", written)
		}
		if err := strict([]byte(written)); (err != nil) != twice {
			r.Errorf("%s: %v, and a name stands twice: %t", written, err, twice)
		}
	})
	for n, refused := range map[int]bool{maxDepth: false, maxDepth + 1: true} {
		if err := strict([]byte(strings.Repeat("[", n) + strings.Repeat("]", n))); (err != nil) != refused {
			t.Errorf("%d levels: %v", n, err)
		}
	}
	if err := strict([]byte("\"\xff\"")); err == nil {
		t.Error("what is not UTF-8 passes")
	}
}

// Whoever asks may hold what is no JSON: that ends the search, and not the process.
func TestTwiceTakesAnyBytes(t *testing.T) {
	for _, hostile := range noJSON {
		_, _ = Twice([]byte(hostile), math.MaxInt)
		_ = strict([]byte(hostile))
	}
	if name, is := Twice([]byte(`{"a":1,"a":2}}`), math.MaxInt); !is || name != "a" {
		t.Errorf("before what is no JSON: %q %t", name, is)
	}
}

// noJSON has brackets that close nothing, signs outside of any object, and texts without an end.
var noJSON = []string{
	"", "}", "]", "{}}", "[]]", ":", ",", "Content-Length: 120", `"`, `"a`, `"\`, `"\"`, `{"`, `{"a`, `{"a\`, `{"a":"b`, `{"a":"b\`, `{"\`,
	`{"\u`, `{"\u12"`, `{"\x":1`, `{"a":1,`, `[,"a":`, `{,"a":]}`, "\x00", "\xff", `{"` + "\xff" + `":1`, "{\"\n\":1,\"\n\"",
}

func FuzzTwice(f *testing.F) {
	for _, hostile := range noJSON {
		f.Add([]byte(hostile))
	}
	f.Add([]byte(`{"a":{"b":[1,"\u0062"]},"a":2}`))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = Twice(data, math.MaxInt)
		_ = strict(data)
	})
}
