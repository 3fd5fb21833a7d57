package canon

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestCanonicalJSON(t *testing.T) {
	for in, want := range map[string]string{
		` { "b" : 1.0 , "a" : [ true , null ] } `: `{"a":[true,null],"b":1.0}`,
		`{"n":1e2,"m":100,"k":-0}`:                `{"k":-0,"m":100,"n":1e2}`,
		`"\u0041\/"`:                              `"A/"`,
		`{"é":1,"z":2,"𐀀":3,"\uffff":4}`:          `{"z":2,"é":1,"` + "\uffff" + `":4,"𐀀":3}`,
		`[]`:                                      `[]`,
		`12345678901234567890.10`:                 `12345678901234567890.10`,
	} {
		got, _, err := JSON([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("%s\n got %s %v\nwant %s", in, got, err, want)
		}
	}
	for name, in := range map[string]string{
		"empty": "", "trailing data": "{} {}", "member twice": `{"a":1,"a":1}`, "twice by escape": `{"a":1,"\u0061":2}`,
		"twice below": `[{"a:":{"b":":"},"a:":{}}]`, "twice in what is replaced": `{"a":{"b":1,"c":2},"a":{"b":{"c":3}}}`,
		"lone surrogate": `"\ud800"`, "not UTF-8": "\"\xff\"", "byte order mark": "\ufeff{}", "trailing comma": `[1,]`,
		"deep": strings.Repeat("[", 300) + strings.Repeat("]", 300), "replacement": "\"\ufffd\"",
		"members alike": `{"Amount":100000,"amount":1}`, "members alike to Go": `{"a":[{"kind":1,"\u212aind":2}]}`,
	} {
		if got, _, err := JSON([]byte(in)); err == nil {
			t.Errorf("%s has the form %s", name, got)
		}
	}
}

// FuzzCanonicalJSON: a form is JSON of the same meaning, and its own form.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.50,"x"],"b":{"c":null}}`, `"\u2028<>&"`, `[[[]]]`, `-0`, `{"a":1,"A":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		form, _, err := JSON(data)
		if err != nil {
			return
		}
		again, value, err := JSON(form)
		if err != nil || !bytes.Equal(again, form) {
			t.Fatalf("%q → %q → %q %v", data, form, again, err)
		}
		if a, b := meaning(t, data), meaning(t, form); !reflect.DeepEqual(a, b) || !reflect.DeepEqual(a, value) {
			t.Fatalf("%q means %v, its form %v", data, a, b)
		}
	})
}

func meaning(t *testing.T, data []byte) (value any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
