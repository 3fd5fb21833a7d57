package strictjson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestJSONIsReadAsTheStandardLibraryDoes(t *testing.T) {
	for _, doc := range []string{
		`null`, `true`, ` false `, `0`, `-0`, `1.5e+3`, `"a\u00e9\ud83d\ude00\n\/"`, `[]`, `[1,[2,{"a":null}]]`, `{"a":{"b":[1,"x"]},"c":1e2}`, "\t{\n\"a\" : 1 , \"b\":2\r\n}",
	} {
		var want any
		dec := json.NewDecoder(strings.NewReader(doc))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got, err := Parse([]byte(doc))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %#v, %v; want %#v", doc, got, err, want)
		}
	}
}

func TestJSONRefuses(t *testing.T) {
	deep := strings.Repeat("[", 201) + strings.Repeat("]", 201)
	for doc, kind := range map[string]Kind{
		" ": Invalid, "{": Invalid, "[": Invalid, "[1,]": Invalid, `{"a":1,}`: Invalid, `{a:1}`: Invalid, `{"a"}`: Invalid,
		"'a'": Invalid, `"a`: Invalid, "\"a\nb\"": Invalid, `"\x"`: Invalid, `"\u12"`: Invalid, `"\u12g4"`: Invalid,
		`"\ud800"`: Invalid, `"\ud800\u0041"`: Invalid, `"\udc00"`: Invalid, "\"\xff\"": NotUTF8, "\xef\xbb\xbf1": Invalid,
		"tru": Invalid, "nulL": Invalid, "NaN": Invalid, "Infinity": Invalid, "-": Invalid, "01": Invalid, "1.": Invalid, ".5": Invalid, "+1": Invalid, "1e": Invalid, "1e+": Invalid, "0x1": TrailingData,
		"1e400": Invalid, "-1e400": Invalid, "1e-400": Invalid, strings.Repeat("9", 401): Invalid, deep: Invalid, "// c\n1": Invalid,
		"1 2": TrailingData, "{}x": TrailingData, "1\x00": TrailingData,
		`{"a":1,"a":1}`: DuplicateName, `{"a":1,"\u0061":1}`: DuplicateName, `[{"b":{"":1,"":2}}]`: DuplicateName,
	} {
		value, err := Parse([]byte(doc))
		if err == nil || err.Kind != kind || value != nil || (err.Kind == Invalid) != (err.What != "") {
			t.Errorf("%.40q: got %v, %v, want kind %d", doc, value, err, kind)
		}
	}
}

func TestErrorsSayNothingOfTheDocument(t *testing.T) {
	for doc, want := range map[string]string{
		"\"secret\xff\"": "not UTF-8", `{"secret" 1}`: "not valid JSON: no colon at offset 10", `{} secret`: "more behind the document, at offset 3",
		`{"secret":1,"secret":2}`: "a name twice in one object, at offset 20",
	} {
		if _, err := Parse([]byte(doc)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", doc, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, doc := range []string{`{"title":"a\u0062\ud83d\ude00","a":{"b":12345678901234567890},"list":[1,"x",{}]}`, `[1.5e-3,null,true]`, `"a\/"`, `{"a":1,"\u0061":1}`} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		got, refused := Parse(doc)
		if refused != nil {
			if got != nil || refused.Error() == "" {
				t.Fatalf("%#v beside %v", got, refused)
			}
			return
		}
		// What we accept the standard library accepts, with the same value.
		var want any
		dec := json.NewDecoder(strings.NewReader(string(doc)))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil || !reflect.DeepEqual(want, got) {
			t.Fatalf("got %#v; encoding/json has %#v, %v", got, want, err)
		}
	})
}

// Between its quotes a string is the same as in a document.
func FuzzUnescape(f *testing.F) {
	for _, between := range []string{"", "a", `\u005fmethod`, `\ud83d\ude00`, `\ud83d`, `\`, `a"b`, `\"`} {
		f.Add(between)
	}
	f.Fuzz(func(t *testing.T, between string) {
		text, ok := Unescape([]byte(between))
		value, err := Parse([]byte(`"` + between + `"`))
		if want, is := value.(string); err == nil && (!ok || !is || text != want) {
			t.Fatalf("got %q, %v; in a document it is %#v", text, ok, value)
		}
		if ok && err != nil && err.Kind != NotUTF8 {
			t.Fatalf("got %q; in a document it is refused: %v", text, err)
		}
	})
}
