package classifier

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// inPieces gives a watch the text in pieces of a size, and returns what it says.
func inPieces(contentType []string, text string, size int) error {
	w := WatchOverride(contentType)
	if w == nil {
		return nil
	}
	for len(text) > 0 {
		n := min(size, len(text))
		if err := w.Look([]byte(text[:n])); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

func TestBodiesThatAskForAnotherMethodAsTheyPass(t *testing.T) {
	part := func(head, value string) string {
		return "--b\r\n" + head + "\r\n\r\n" + value + "\r\n--b--\r\n"
	}
	named := `Content-Disposition: form-data; name="`
	pad := strings.Repeat("x", 9000)
	for _, c := range []struct {
		types, text string
		refused     bool
	}{
		{"application/json", `{"_method":"DELETE"}`, true},
		{"application/json", ` { "a" : [1,{"b":"\""}] , "\u005fMethod" : "put" }`, true},
		{"application/json", `{"_method":null}`, true},
		{"application/json", `{"_method":["DELETE"]}`, true},
		{"application/json", `{"_method":"POST"}`, false},
		{"application/json", `{"_method":"POST","_method":"DELETE"}`, true},
		{"application/json", `{"_method":"POST` + pad + `"}`, true},
		{"application/json", `{"x":{"_method":"DELETE"},"y":"_method","z":["_method"]}`, false},
		{"application/json", `{"x":"\\","_method":"DELETE"}`, true},
		{"application/json", `{"x":"\",\"_method\":\"DELETE"}`, false},
		{"application/json", `["_method",{"_method":"DELETE"}]`, false},
		{"application/json", `{"` + pad + `_method":"DELETE"}`, false},
		{"application/json", `{"` + pad + `":"` + pad + `","_method":"DELETE"}`, true},
		{"application/vnd.api+json; charset=utf-8", `{"_method":"DELETE"}`, true},
		{"text/x; a=/json", `{"_method":"DELETE"}`, true}, // Laravel looks for it anywhere
		{`multipart/related; type="application/json"`, "\n{\"_method\":\"DELETE\"}", true},
		{"application/octet-stream", `{"_method":"DELETE"}`, false},
		{"text/plain", "_method=DELETE&", false},

		{"", "_method=DELETE&", true},
		{"", `{"a":"b"}`, false},
		{"", "_method=POST&a=b", false},
		{"application/x-www-form-urlencoded", "a=b&_method=DELETE&", true},
		{"application/x-www-form-urlencoded", "[_method]=DELETE&", true},
		{"application/x-www-form-urlencodedx", "_method=DELETE&", true},               // Tornado looks at the beginning
		{"application/json, application/x-www-form-urlencoded", "_method=PUT&", true}, // Mojolicious looks anywhere
		{"multipart/form-data", "a=b&_method=DELETE&", true},                          // Rack reads it as a form
		{"multipart/mixed; boundary*=utf-8''b", "_method=DELETE&", true},
		{"multipart/form-data; boundary=b", "a=b&_method=DELETE&", false},
		{"multipart/form-data", "a=b", false},
		{"application/csp-report", `{"_method":"DELETE"}`, true}, // koa-body

		{"multipart/form-data; boundary=b", part(named+`_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`_method"`, "POST"), true}, // what is in it may be coded
		{"MULTIPART/related; boundary=b", part("content-id: <_method>", "DELETE"), true},
		{"multipart/mixed; boundary=b", part("Content-Type: text/plain\r\n"+named+`_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`a"`, "x") + part(named+`_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name=_method", "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition : form-data ; NAME = '_method'", "DELETE"), true},
		{"multipart/form-data; boundary=b", part(`Content-Disposition: form-data; name="_m\ethod"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name*=utf-8''%5Fmethod", "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name*=utf-16be''%00_%00m%00e%00t%00h%00o%00d", "DELETE"), true}, // Django
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; Name* = \"IBM037'en'm%94%85%a3%88%96%84\"", "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name*0=_met; name*1=hod", "DELETE"), true}, // werkzeug
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name*0*=utf-8''%5Fmet; name*1=hod", "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name*=UTF-8'en'a; filename*=utf-16''%00; filename*0=_method", "DELETE"), false},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name==?utf-8?q?_method?=", "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data;\r\n name=\"_method\"", "DELETE"), true},
		{"multipart/form-data; boundary=b", part("X: y\r\n\tContent-Disposition: form-data; name=_method", "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`x"; filename="y;name=_method"`, "DELETE"), true}, // to a reader that knows no quotes
		{"multipart/form-data; boundary=b", part(named+`_method[x]"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`.method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`$httpMethod"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`_method"x`, "DELETE"), true}, // PHP, Rack and most others end it at the quote
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name='_method'x", "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`_method"; "`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(named+`[_method]"`, "DELETE"), true}, // Rack
		{"multipart/form-data; boundary=b", part(`Content-Disposition: form-data name="_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(`Content-Disposition: form-data, name="_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part(`Content-Disposition: form-data x; filename="_method"`, "DELETE"), false},
		{"multipart/form-data; boundary=b", part(`Content-Disposition: form-data; name="file name"; x="y"`, "_method"), false},
		{"multipart/form-data; boundary=b", part(named+`a"; filename="_method"`, "DELETE"), false},
		{"multipart/form-data; boundary=b", part(named+`a"`, `<input name="_method">`), false},
		{"multipart/form-data; boundary=b", part("X: y\r\n name=\"_method\"", "DELETE"), false},
		{"multipart/form-data; boundary=b", part("X: "+pad+"\r\n"+named+`_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part("X: "+pad+named+`_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; x="+pad+"; name=_method", "DELETE"), true},
		{"multipart/form-data; boundary=b", strings.ReplaceAll(part(named+`_method"`, "DELETE"), "\r\n", "\n"), true},
		{"multipart/form-data; boundary=b", strings.ReplaceAll(part(named+`_method"`, "DELETE"), "\r\n", "\r"), true},
		{"multipart/form-data; boundary=b", part("X: y\n\n"+named+`_method"`, "DELETE"), true}, // to a reader that wants CRLF
		{"multipart/form-data; boundary=b", part("X: y\r\r"+named+`_method"`, "DELETE"), true},
		{"multipart/form-data; boundary=b", "preamble--b\r\n" + named + "_method\"\r\n\r\nDELETE", true},
		{"multipart/form-data; boundary=b", part("Content-Disposition: form-data; name=", "_method"), false},
		{"multipart/form-data; boundary=b", part(named+`method"`, "_method"), false},
		{"multipart/form-data; boundary=b", part(named+`file"; filename="a.sql"`+"\r\nContent-Type: text/plain", "-- a comment\r\nCREATE TABLE x;\r\n\r\n"+named+`_method"`), false},
		{"multipart/form-data; boundary=b", part(named+`file"; filename="a.js"`, "-->\n"+pad+"\n"+pad), false},
		{"multipart/form-data; boundary=b", "--b\r\n\r\n" + named + "_method\"\r\n\r\nDELETE", false}, // a part without a head
		{"multipart/", part(named+`_method"`, "DELETE"), false},
	} {
		for _, size := range []int{1, 2, 3, 7, 4096, len(c.text)} {
			err := inPieces([]string{c.types}, c.text, size)
			var e *Error
			if (err != nil) != c.refused || err != nil && (!errors.As(err, &e) || e.Reason != reasonMethodOverride) {
				t.Errorf("%s %.80q in pieces of %d: %v", c.types, c.text, size, err)
			}
		}
	}
	if inPieces(nil, "_method=DELETE&", 99) == nil || inPieces([]string{"text/plain", "application/json"}, `{"_method":"PUT"}`, 99) == nil {
		t.Error("no type at all, or the second of two, is not looked at")
	}
}

// Some servers tell UTF-16 and UTF-32 by the NULs in it (RFC 4627 section 3), or decode
// by the charset that is named: a word of the query is in such a body unseen.
func TestBodiesInOtherCharsetsAreRefusedBesideAWord(t *testing.T) {
	const json, form = "application/json", "application/x-www-form-urlencoded"
	doc := `{"predefinedAcl":"publicRead"}`
	for _, c := range []struct {
		types, text string
		refused     bool
	}{
		{json, wide(doc, 2, false), true},
		{json, wide(doc, 2, true), true},
		{json, wide(doc, 4, false), true},
		{json, wide(doc, 4, true), true},
		{json, "\xff\xfe" + wide(doc, 2, false), true},
		{json, "\xfe\xff" + wide(doc, 2, true), true},
		{json, "\xff\xfe\x00\x00" + wide(doc, 4, false), true},
		{"application/vnd.x+json", wide(" \n"+doc, 2, false), true},
		{json, `{"name":"x"}` + wide(doc, 2, false), true},
		{json, "{\"predefined\xffAcl\":1}", true}, // to a reader that leaves out what it cannot read
		{json, "{\"" + strings.Repeat("\xff", 9000) + "predefinedAcl\":1}", true},
		{json, "{\"predefined\xc1\x81cl\":1}", true}, // to one that takes more bytes than needed
		{json, "{\"predefined\xe2(Acl\":1}", true},   // or what a letter begins with and none goes on
		{json, "{\"predefined\xf0\x9f\x98\"Acl\":1}", true},
		{json, `{"name":"é€😀","x":1}`, false},
		{json, "\xef\xbb\xbf{\"name\":\"x\"}", false},
		{json + "; charset=UTF-8", `{"name":"x"}`, false},
		{json + `; charset="utf8"`, `{"name":"x"}`, false},
		{json + "; charset=iso-8859-1", `{"name":"x"}`, false},
		{json + "; charset: utf-8", `{"name":"x"}`, false}, // as some write
		{json + ";charset=UTF-8;", `{"name":"x"}`, false},
		{json + "; charset*=utf-8''ibm037", "\xc0\x7f\x97", true},
		{json + "; charset='utf-16'", wide(doc, 2, false), true},
		{json + "; charset=utf-16", wide(doc, 2, false), true},
		{json + "; charset=utf-7", "+AHsAIgBw", true},
		{json + "; charset=ibm037", "\xc0\x7f\x97", true},
		{json + "; charset=utf-8; charset=ibm037", "\xc0\x7f\x97", true},

		{form, wide(doc, 2, false), true},
		{form, wide(doc, 2, true), true},
		{form, "\xfe\xff" + wide(" "+doc, 2, true), true},
		{form, wide("\n"+doc, 4, true), true},
		{form, "\x00\x00\x00\x20ftypisom", false}, // a file that curl sends
		{form, "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", false},
		{form, "a=1&b=%00&", false},
		{form + "; charset=ibm500", "%97%99=1&", true},
		{"", wide(doc, 2, true), true},
		{"multipart/form-data; boundary=b; charset=utf-16", "--b\r\n", true},
		{"multipart/form-data; boundary=b; charset=utf-8", "--b\r\n", false},
		{`multipart/related; type="application/json"; boundary=b`, "--b\r\n\r\n{}\r\n--b\r\n\r\n\x89PNG\x00\r\n--b--", false}, // RFC 2387 section 3.1
		{`multipart/related; type="application/json"; boundary=b`, " {\"x\":\"\xff\"}", true},
		{"application/octet-stream", wide(doc, 2, false), false},
	} {
		for _, size := range []int{1, 2, 3, 7, 4096} {
			err := besideWord([]string{c.types}, c.text, size)
			var e *Error
			if (err != nil) != c.refused || err != nil && (!errors.As(err, &e) || e.Reason != reasonUnsupportedMedia) {
				t.Errorf("%s %.60q in pieces of %d: %v", c.types, c.text, size, err)
			}
		}
	}
	for kind, text := range map[string]string{ // nothing decides but the method, and what reads that reads UTF-8
		json: wide(doc, 2, false), json + "; charset=utf-8": "\x1f\x8b\x08\x00\x00", json + "; charset=windows-1252": "{\"a\":\"\xe9\"}",
	} {
		if err := inPieces([]string{kind}, text, 4096); err != nil {
			t.Errorf("%s %.60q: %v", kind, text, err)
		}
	}
}

// besideWord is inPieces beside a word of the query, of a PUT too.
func besideWord(contentType []string, text string, size int) error {
	const word = "predefinedAcl"
	if OtherCharset(contentType) { // asked before
		return unsupported("another charset")
	}
	watches := []*OverrideWatch{WatchOverride(contentType, word)}
	if contentType[0] != "" {
		watches = append(watches, WatchWords(contentType, word))
	}
	var first error
	for i, w := range watches {
		var err error
		for rest := text; w != nil && err == nil && rest != ""; {
			n := min(size, len(rest))
			err, rest = w.Look([]byte(rest[:n])), rest[n:]
		}
		if i > 0 && (err == nil) != (first == nil) {
			return fmt.Errorf("by PUT %w, by POST %w", err, first)
		}
		first = err
	}
	return first
}

// A word of the query is found in a body of any kind, however long it is and whatever is
// escaped of it, by POST and by PUT.
func TestAWordOfTheQueryIsFoundInAnyBody(t *testing.T) {
	const json, form, parts = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	escaped := func(form, word string) (out string) {
		for _, c := range []byte(word) {
			out += fmt.Sprintf(form, c)
		}
		return out
	}
	for _, word := range []string{"acl", "predefinedAcl", strings.Repeat("long", 20)} {
		part := "--b\r\nContent-Disposition: form-data; name=%s\r\n\r\nx\r\n--b--\r\n"
		for text, kind := range map[string]string{
			`{"a":{},"` + word + `":1}`: json, `{"` + strings.ToUpper(word) + `":1}`: json, `{"` + escaped(`\u%04x`, word) + `":1}`: json,
			word + "=1&": form, "a=1&" + escaped("%%%02X", word) + "=1&": form,
			fmt.Sprintf(part, word): parts, fmt.Sprintf(part, `"`+word+`"`): parts, strings.Replace(fmt.Sprintf(part, "utf-8''"+escaped("%%%02X", word)), "name", "name*", 1): parts,
		} {
			for _, w := range []*OverrideWatch{WatchOverride([]string{kind}, "x", word), WatchWords([]string{kind}, "x", word)} {
				var e *Error
				if err := w.Look([]byte(text)); !errors.As(err, &e) || e.Reason != reasonAmbiguousParameter {
					t.Errorf("%s %q: %v", kind, text, err)
				}
			}
		}
	}
}

// A body calls a list of the query otherwise: "include[]" is a member include of a document,
// and in a form it has an index or none.
func TestAListOfTheQueryIsFoundInAnyBody(t *testing.T) {
	const json, form, parts = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	open, guarded := get("list", "x.list", "/p"), get("keys", "x.keys", "/p")
	guarded.Match.Query = map[string]string{"include[]": "keys"}
	table, err := compileTable([]Route{open, guarded})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Scheme: "https", Authority: "api.test:443", Method: "GET", Target: "/p"}
	m, err := table.Match(in)
	if err != nil || m.Action != "x.list" {
		t.Fatal(m.Action, err)
	}
	part := func(name string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\nkeys\r\n--b--\r\n"
	}
	for _, c := range []struct {
		kind, text string
		refused    bool
	}{
		{json, `{"include":["keys"]}`, true}, {json, `{"a":1,"Include":"keys"}`, true}, {json, `{"include[]":["keys"]}`, true},
		{json, `{"includes":["keys"]}`, false}, {json, `{"a":{"include":["keys"]}}`, false},
		{form, "include=keys", true}, {form, "include[]=keys", true}, {form, "a=1&include%5B0%5D=keys", true}, {form, "include.0=keys", true},
		{form, "a=include[]", false}, {form, "includes[]=keys", false},
		{parts, part("include"), true}, {parts, part("include[]"), true}, {parts, part("include[0]"), true}, {parts, part("includes"), false},
	} {
		w, refused := WatchWords([]string{c.kind}, m.Words...), false
		for _, piece := range []string{c.text[:9], c.text[9:]} {
			refused = refused || w.Look([]byte(piece)) != nil
		}
		if refused = refused || w.End() != nil; refused != c.refused {
			t.Errorf("%s %q as it passes: refused = %v", c.kind, c.text, refused)
		}
		if c.kind == parts {
			in.Body = NamedParts([]byte(c.text))
		} else if in.Body, err = ParseBody(c.kind, "", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if _, err := table.Match(in); (err != nil) != c.refused {
			t.Errorf("%s %q as it is read: %v", c.kind, c.text, err)
		}
	}
}

// wide is ASCII with so many bytes for each letter.
func wide(text string, width int, bigEndian bool) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		unit := make([]byte, width)
		if unit[0] = c; bigEndian {
			unit[0], unit[width-1] = 0, c
		}
		out.Write(unit)
	}
	return out.String()
}

// What passes costs little, whatever is in it.
func TestHostileBodiesThatPassCostLittle(t *testing.T) {
	const size = 4 << 20
	for name, c := range map[string]struct{ kind, of string }{
		"indents":     {"multipart/x", "\r\n "},
		"fields":      {"multipart/x", "content-disposition: x\n"},
		"semicolons":  {"multipart/x", "content-disposition: " + strings.Repeat(";", 8000) + "\n"},
		"cut":         {"multipart/x", strings.Repeat("x", 200) + "content-disposition"},
		"hyphens":     {"multipart/x", "--\r\n\r\n"},
		"backslashes": {"application/json", `{"\\\\\\\"`},
		"brackets":    {"application/json", "[{"},
		"names":       {"application/json", `{"_metho\u0064":"POST",`},
	} {
		text, begun := "--\n"+strings.Repeat(c.of, size/len(c.of)), time.Now()
		_ = inPieces([]string{c.kind}, text, 32<<10)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
}
