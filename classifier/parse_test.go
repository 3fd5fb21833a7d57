package classifier

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/classifier/graphql"
)

func TestAnAuthorityHasOneSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"api.good.test":                "api.good.test:443",
		"API.Good.Test.:443":           "api.good.test:443",
		"api.good.test:8443":           "api.good.test:8443",
		"a_b.test":                     "a_b.test:443",
		"r3---sn-x.test":               "r3---sn-x.test:443",
		"localhost":                    "localhost:443",
		"bücher.test":                  "xn--bcher-kva.test:443",
		"BÜCHER.test":                  "xn--bcher-kva.test:443",
		"XN--bcher-KVA.test":           "xn--bcher-kva.test:443",
		"xn--80ak6aa92e.test":          "xn--80ak6aa92e.test:443", // CB-032: shown as the A-label
		"api。good.test":                "api.good.test:443",
		"127.0.0.1:80":                 "127.0.0.1:80",
		"127.0.0.1.:80":                "127.0.0.1:80",
		"１２７.0.0.1":                    "127.0.0.1:443",
		"１２７．０．０．１":                    "127.0.0.1:443",
		"127。0。0。1。":                   "127.0.0.1:443",
		"①.2.3.4":                      "1.2.3.4:443",
		"1.2.3.4\u00ad.":               "1.2.3.4:443",
		"[::1]":                        "[::1]:443",
		"[0:0:0:0:0:0:0:1]:8080":       "[::1]:8080",
		"a.test:65535":                 "a.test:65535",
		"[2001:DB8::A]":                "[2001:db8::a]:443",
		"[::ffff:127.0.0.1]":           "[::ffff:127.0.0.1]:443",
		strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b:443",
	} {
		got, err := CanonicalAuthority(in, "443")
		if err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", in, got, err, want)
		}
		if again, err := CanonicalAuthority(got, ""); err != nil || again != got {
			t.Errorf("%q is not its own canonical form: %q, %v", got, again, err)
		}
	}
}

func TestCanonicalAuthorityRefuses(t *testing.T) {
	for _, in := range []string{
		"", ".", ":443", "api.good.test..:443", ".good.test", "api..test", // CB-026
		"[api.good.test]", "[127.0.0.1]", "[::1", "[::1]x", "[::1]443", "[fe80::1%25eth0]", "[fe80::1%eth0]", "[::1%]", "[]", // CB-027
		"user:pw@api.good.test:443", "u@api.good.test", // CB-028
		"a.test:0443", "a.test:+443", "a.test:", "a.test:0", "a.test:65536", "a.test:99999999999", "a.test:https", "a.test:-1", "[::1]:", "[::1]:0443", // CB-030
		"a.test:443:443", "::1", "fe80::1", "a b.test", "a.test/x", `a.test\x`, "a.test?x", "a.test#x", "a%2etest", "a\x00.test", "a\r\n.test", "a\xff.test",
		"127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.1.5", "a.0x1", "256.0.0.1",
		"127.1.", "2130706433.", "0x7f000001.", "0x7f.1", "0x7f.0x0.0x0.0x1", "0", "0x", "1.2.3.4..", "[::1].", "[::1].:80", "[::127.0.0.01]", "127.0.0.1%00", "%31.2.3.4",
		"１２７.1", "１２７.1.", "２１３０７０６４３３", "xn--127-.0.0.1", "1.2.3.xn--4-.", "xn--2130706433-", "xn--0x7f000001-", "\u0661.0.0.1", "1.2.3.4:８０",
		"*.test", "a!.test", "xn--a.test", "xn--", "a.xn--", "a.\u00ad", "a\u200d.test", "a\u202e.test", "api.good.test\u3002\u3002", "a／b.test", "a＠b.test",
		strings.Repeat("a", 64) + ".test", strings.Repeat("a.", 127) + "test",
	} {
		got, err := CanonicalAuthority(in, "443")
		var e *Error
		if !errors.As(err, &e) || e.Code != "ambiguous_target" || e.Reason != "invalid_host" || got != "" {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	if got, err := CanonicalAuthority("a.test", ""); err == nil {
		t.Errorf("without any port: %q", got)
	}
}

func TestCheckTargetRefuses(t *testing.T) {
	for _, target := range []string{
		"", "*", "repos/a", "http://a.test/", "?q", "/a b", "/a\tb", "/a\x7f", "/\u00e9", "/a\x00",
		"/.", "/..", "/./", "/../", "/a/.", "/a/%2e", "/a/%2E%2e/", "/a/.%2e", "/a/%252e%252e", "/a/%25252e%25252e", "/a/..%2f", "/a/x%2f..", "/a/..%5cx",
		"/..;", "/.;a=b", "/..%3b", "/;", "/;a=b/c", "/a/;/b", "/a/%3b", "/a/%3Bx/", "/a/%253b", "/a%2f;x%2fb", "/a;b/;", "//", "//a", "/a//", "/a//b", "/%", "/%4", "/%zz", "/%u002e", "/a%00", "/a%0a", "/a%7f", "/a%c0%ae", "/a%ff", "/%25c0%25ae%25c0%25ae/a", "/a%25C0%25AFb", "/a%2500", "/a%2525c1%25259cb", "/a%25e0%2580%25afb", "/a%25f0%2580%2580%25afb", "/a%25c0%2580b", "/a%25c1%25bfb", "/a%25e0%259f%25bfb", "/a%25f0%258f%25bf%25bfb", `/a\b`, "/a#b",
		"/a?b c", "/a?b#c", "/a?%", "/a?%0", "/a?%00", "/a?\u00e9", "/a?x\n",
	} {
		err := CheckTarget(target)
		var e *Error
		if !errors.As(err, &e) || e.Code != "ambiguous_target" || e.Reason == "" {
			t.Errorf("%q: %v", target, err)
		}
	}
}

func TestCheckTargetAccepts(t *testing.T) {
	for _, target := range []string{
		"/", "/a", "/a/", "/a/b?c=d&e", "/a?", "/a?b=%0A", "/a?b=\\", "/a?q=//x/../y", "/...", "/.a", "/a..b", "/..a", "/%20", "/a%2Fb", "/a%5Cb",
		"/a;b", "/@scope%2Fpkg", "/%C3%A9", "/a%253Fb", "/x:y", "/50%25absolut", "/caf%25e9", "/%25C3%25A9", "/VOIL%25C0", "/%25e0%25a4%2585", "/%25f0%259f%2591%258d", "/%25e0%25a0%2580", "/%25f0%2590%2580%2580", "/%25c0x", "/a?q={a}", "/" + strings.Repeat("a/", 100),
	} {
		if err := CheckTarget(target); err != nil {
			t.Errorf("%q: %v", target, err)
		}
	}
}

// What is wrong with a body its sender is told, and not what stands in it but a name.
func TestWhatIsWrongWithAJSONBodyIsSaid(t *testing.T) {
	for doc, want := range map[string]string{
		"\"\xff\"":           "invalid_input (invalid_json): the body is not UTF-8",
		`{"a" 1}`:            "invalid_input (invalid_json): the body is not valid JSON: no colon at offset 5",
		`[1e400]`:            "invalid_input (invalid_json): the body is not valid JSON: a number out of range at offset 1",
		"{}\n{}":             "invalid_input (trailing_data): the body goes on after the JSON document, at offset 3 (documents in lines are application/x-ndjson)",
		`{"k":1,"\u006b":2}`: `invalid_input (duplicate_key): the JSON body has the member "k" twice in one object`,
		`{"` + strings.Repeat("k", 70) + `":1,"` + strings.Repeat("k", 70) + `":2}`: `invalid_input (duplicate_key): the JSON body has the member "` + strings.Repeat("k", 64) + `…" twice in one object`,
	} {
		b, err := ParseBody("application/json", "", []byte(doc))
		if err == nil || err.Error() != want || b != nil {
			t.Errorf("%s: got %v, want %s", doc, err, want)
		}
	}
}

func TestAFormIsReadInOneWayOrRefused(t *testing.T) {
	b, err := ParseBody("application/x-www-form-urlencoded; charset=UTF-8", "", []byte("a=1&b=x+y%26&a=2&&c"))
	want := map[string]any{"a": []any{"1", "2"}, "b": "x y&", "c": ""}
	if err != nil || !reflect.DeepEqual(b.Value(), want) {
		t.Errorf("got %#v, %v", b.Value(), err)
	}
	for _, form := range []string{"a=1;b=2", "a=%", "a=%zz", "a=%ff"} {
		if _, err := ParseBody("application/x-www-form-urlencoded", "", []byte(form)); err == nil {
			t.Errorf("%q is accepted", form)
		}
	}
}

func TestNoBodyHasNoValue(t *testing.T) {
	for _, media := range []string{"", "application/json", "text/plain"} {
		if b, err := ParseBody(media, "", nil); err != nil || b == nil || b.Value() != nil {
			t.Errorf("%q: %v, %v", media, b, err)
		}
	}
	if _, err := ParseBody("application/json", "br", nil); err == nil {
		t.Error("a coded body is accepted")
	}
}

func TestWholeNumbersAreKnownInAnySpelling(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-7": true, "1.0": true, "1e3": true, "1.5e1": true, "10e-1": true, "100E-2": true, "0e-5": true, "0.0": true, "-1.20e+1": true,
		"1.5": false, "1e-1": false, "15e-1": false, "9007199254740993.5": false, "1.05e1": false, "0.1": false,
	} {
		if got := isWhole(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestGraphQLFieldPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns, field string
		want            bool
	}{
		{"delete*", "delete", true}, {"delete*", "deleteRef", true}, {"delete*", "undelete", false}, {"delete*", "Delete", false}, {"*Delete", "issueDelete", true},
		{"*Delete", "Delete", true}, {"*Delete", "issueDeleted", false}, {"*Delete*", "teamDeleteKey", true}, {"*", "x", true}, {"a*b*c", "aXbYc", true}, {"a*b*c", "abc", true},
		{"a*b*c", "acb", false}, {"a*b", "aab", true}, {"ab*ba", "aba", false}, {"a", "a", true}, {"a", "ab", false}, {"*a*a", "a", false}, {"**a", "ba", true},
		{"x,delete*", "deleteRef", true}, {"delete*,!deleteDraft", "deleteDraft", false}, {"!deleteDraft,delete*", "deleteDraft", false},
		{"delete*,!*Draft*", "deleteMyDrafts", false}, {"delete*,!deleteDraft", "deleteDrafts", true},
	} {
		g := &GraphQL{Fields: strings.Split(c.patterns, ",")}
		if err := CheckFields(g.Fields); err != nil {
			t.Errorf("%s: %v", c.patterns, err)
		}
		if got := g.asksFor([]string{"other", c.field}); got != (c.want || c.patterns == "*") {
			t.Errorf("%s finds %s: %v", c.patterns, c.field, got)
		}
	}
}

// A document that asks for more than anybody writes is not held against every
// pattern: it counts as the worst.
func TestGraphQLOfManyRootFieldsIsUnknown(t *testing.T) {
	for n, unknown := range map[int]bool{graphql.MostRootFields: false, graphql.MostRootFields + 1: true} {
		for name, text := range map[string]string{
			"in one place":  "mutation{" + strings.Repeat("a ", n) + "}",
			"in fragments":  "mutation{...F " + strings.Repeat("a ", n-1) + "}fragment F on M{a}",
			"in operations": "mutation A{" + strings.Repeat("a ", n-1) + "}mutation B{b}",
		} {
			r := graphqlRequest{document: text}
			if got := r.call(); got.unknown != unknown {
				t.Errorf("%d fields %s: unknown is %v", n, name, got.unknown)
			}
		}
	}
}

// JSON that calls itself a form, as curl -d sends it, is JSON to some servers: as a
// form it has none of the members that tell an action from another. Where it could be
// several fields too it is refused.
func TestJSONThatCallsItselfAForm(t *testing.T) {
	const form = "application/x-www-form-urlencoded"
	for _, raw := range []string{`{"draft":false}`, " \r\n\t{\"draft\":false}", `[{"a":1}]`, `{"a":"x=1"}`} {
		as, err := ParseBody(form+"; charset=utf-8", "", []byte(raw))
		is, _ := ParseBody("application/json", "", []byte(raw))
		if err != nil || !reflect.DeepEqual(as, is) {
			t.Errorf("%q as a form: %v, %v", raw, as, err)
		}
	}
	for _, raw := range []string{`{"a":"x=1&b=2"}`, `{"a":"x;b=2"}`, "\xef\xbb\xbf{\"draft\":false}", `{"a":1,"a":2}`, `{"a":1`, `{a}=1`, `[a]=1`} {
		var refused *Error
		if _, err := ParseBody(form, "", []byte(raw)); !errors.As(err, &refused) || refused.Code != "invalid_input" {
			t.Errorf("%q as a form: %v", raw, err)
		}
	}
	for _, raw := range []string{"a=%7B%22x%22%3A1%7D", `a={"x":1}`, "%7Ba%7D=1", "", "a[]=1", "blocks=[{}]"} {
		if b, err := ParseBody(form, "", []byte(raw)); err != nil || raw != "" && b.form == nil {
			t.Errorf("%q as a form: %v", raw, err)
		}
	}
}

// What some servers read in another charset decides nothing in UTF-8.
func TestBodiesThatAreNotUTF8AreNotRead(t *testing.T) {
	const json, form = "application/json", "application/x-www-form-urlencoded"
	doc := `{"draft":false}`
	for _, width := range []int{2, 4} {
		for _, bigEndian := range []bool{false, true} {
			for _, mark := range []string{"", wide("\xff", width, bigEndian), "\xff\xfe", "\xfe\xff", "\x00\x00\xfe\xff"} {
				for _, media := range []string{json, form, json + "; charset=utf-16", form + "; charset=utf-32", "application/vnd.x+json"} {
					for _, text := range []string{doc, " " + doc, "draft=false"} {
						if b, err := ParseBody(media, "", []byte(mark+wide(text, width, bigEndian))); err == nil {
							t.Errorf("%s %q is read as %v", media, mark+wide(text, width, bigEndian), b.Value())
						}
					}
				}
			}
		}
	}
	for _, c := range []string{"ibm037", "utf-7", "utf-16le", "iso-2022-jp", "latin1", "UTF-8, utf-16"} {
		if _, err := ParseBody(json+"; charset=\""+c+"\"", "", []byte(doc)); err == nil {
			t.Errorf("charset %s is read", c)
		}
	}
}

// Tomcat looks for "charset=" anywhere in the field, within what another parameter is
// quoted by too, and decodes the names of a form by it.
func TestACharsetThatSomeReadersFindIsOne(t *testing.T) {
	const json, form = "application/json", "application/x-www-form-urlencoded"
	for kind, refused := range map[string]bool{
		form + `; x=";charset=utf-16be;"`: true, form + `; x="charset=ibm037"`: true, form + `; mycharset=utf-16`: true,
		json + `; x=";charset=utf-7;"`: true, json + `; charset=utf-8; x="charset=utf-16"`: true,
		json + `; profile="https://charset.test/"`: false, form + `; x="charset=utf-8"`: false,
		json + "; charset": true, json + `; x="charset`: true, json + `; x=charset`: false,
	} {
		text := "%00k%00i%00n%00d=a"
		if strings.HasPrefix(kind, json) {
			text = `{"+AGsAaQBuAGQ-":"a"}`
		}
		if b, err := ParseBody(kind, "", []byte(text)); (err != nil) != refused {
			t.Errorf("%s is read as %v: %v", kind, b.Value(), err)
		}
	}
	if Unpackable(http.Header{"Content-Type": {json + `; x=";charset=utf-7;"`}, "Content-Encoding": {"gzip"}}) {
		t.Error("what is in another charset to some is unpacked")
	}
}

// Of several spellings of a name always the same one is named.
func TestTheSameBodyHasTheSameAnswer(t *testing.T) {
	t.Parallel()
	for range 50 {
		body, err := ParseBody("application/json", "", []byte(`{"sTATE":1,"State":2,"STATE":3}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := body.lookup([]string{"state"}, strictness{}); err == nil || !strings.Contains(err.Msg, `"STATE"`) {
			t.Fatal(err)
		}
	}
}
