package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every spelling that is one byte away from a sound document, and every beginning of one, is
// accepted if and only if the standard library accepts it and none of the rules forbids it
// that are ours: names once, UTF-8, whole surrogate pairs, numbers that a float64 is near.
func TestSpellingsOneByteAwayAreReadAsTheStandardLibraryDoes(t *testing.T) {
	accepted, refused := 0, 0
	look := func(doc []byte) {
		got, err := Parse(slices.Clip(doc)) // what reads behind it panics
		want, sound := reference(doc)
		switch {
		case sound && (err != nil || !reflect.DeepEqual(got, want)):
			t.Fatalf("%q: got %#v, %v; want %#v", doc, got, err, want)
		case !sound && (err == nil || got != nil):
			t.Fatalf("%q: %#v is accepted, with %v", doc, got, err)
		}
		if sound {
			accepted++
		} else {
			refused++
		}
	}
	for _, seed := range []string{
		`{"a":[1,-20.5e+3,0,1E-2,true,null,false],"b":{"c":"x"},"":{}}`, `["\u0041\ud83d\ude00\\\/\b\f\n\r\t\"é€😀\u00e9 ~\u007f"]`,
		" [ ] ", "\t{ \"a\" :\r\n0.0 , \"b\" : [ 10 ] }", `-0.10e10`, `"\u1fFa"`, `[[[]],{"a":{}}]`,
	} {
		doc := []byte(seed)
		for i := range doc {
			look(doc[:i])
			look(bytes.Join([][]byte{doc[:i], doc[i+1:]}, nil))
			for c := range 256 {
				look(bytes.Join([][]byte{doc[:i], {byte(c)}, doc[i:]}, nil))
				look(bytes.Join([][]byte{doc[:i], {byte(c)}, doc[i+1:]}, nil))
			}
		}
	}
	if accepted < 5000 || refused < 50_000 {
		t.Errorf("%d accepted and %d refused, which shows little", accepted, refused)
	}
}

// reference is Parse by means of the standard library.
func reference(doc []byte) (value any, sound bool) {
	if !json.Valid(doc) || !utf8.Valid(doc) || !pairs(doc) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	return element(dec)
}

func element(dec *json.Decoder) (value any, sound bool) {
	token, err := dec.Token()
	if err != nil {
		return nil, false
	}
	switch token := token.(type) {
	case json.Number:
		f, err := token.Float64()
		return token, err == nil && (f != 0 || !strings.ContainsAny(strings.Split(strings.ToLower(token.String()), "e")[0], "123456789"))
	case json.Delim:
		sound = true
		list, object := []any{}, map[string]any{}
		for dec.More() {
			name := ""
			if token == '{' {
				key, _ := dec.Token()
				name, _ = key.(string)
				if _, twice := object[name]; twice {
					return nil, false
				}
			}
			v, ok := element(dec)
			sound = sound && ok
			list, object[name] = append(list, v), v
		}
		_, _ = dec.Token()
		if token == '[' {
			return list, sound
		}
		return object, sound
	}
	return token, true
}

// pairs reports whether no surrogate stands alone in a valid document. The standard library
// reads each of them as U+FFFD, which no seed has otherwise.
func pairs(doc []byte) bool {
	var v any
	_ = json.Unmarshal(doc, &v)
	text, _ := json.Marshal(v)
	return !bytes.Contains(text, []byte("\uFFFD")) && !bytes.Contains(text, []byte(`\ufffd`))
}

func TestLimitsAreExact(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for doc, sound := range map[string]bool{
		nested(200): true, nested(201): false,
		"0." + strings.Repeat("1", 398): true, "0." + strings.Repeat("1", 399): false,
		`"\ud83d`: false, `"\ud83d\`: false, `"\ud83d\u`: false, `"\ud83dxude00"`: false, `"\ud83d\xde00"`: false, `"\u004`: false, `"\u0041`: false, `"\u+041"`: false, `"\u0_41"`: false,
	} {
		if _, err := Parse([]byte(doc)); (err == nil) != sound {
			t.Errorf("%.20q: %v", doc, err)
		}
	}
	for text, is := range map[string]bool{
		"0": true, "-0": true, "10": true, "0.0": true, "1e5": true, "1E+5": true, "1e-05": true, "0e0": true,
		"": false, "-": false, "00": false, "01": false, "-01": false, "1.": false, ".1": false, "1.e1": false, "1e": false, "1e+": false, "1x": false, "1x5": false, "1e5x": false, "1e5.0": false, "1e--5": false, "+1": false, "--1": false, "1 ": false, "0x1": false,
	} {
		if IsNumber(text) != is || IsShortNumber(text) != is || (CheckNumber(text) == nil) != is {
			t.Errorf("%q: %v, %v, %v; want %v", text, IsNumber(text), IsShortNumber(text), CheckNumber(text), is)
		}
	}
	if long := strings.Repeat("1", 401); !IsNumber(long) || IsShortNumber(long) || !IsShortNumber(long[1:]) {
		t.Error("a number of 401 digits is none, or counts as short")
	}
}
