package classifier

import (
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// everyRequest is what all files of testdata send.
func everyRequest(f *testing.F) (routes []Route, cases []requestLine) {
	f.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		s := readScript(f, file)
		routes, cases = append(routes, s.routes...), append(cases, s.cases...)
	}
	return withoutOverlaps(routes), cases
}

func withoutOverlaps(routes []Route) (kept []Route) {
	for _, r := range routes {
		if _, err := Compile(append(kept[:len(kept):len(kept)], r)); err == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

func FuzzMatch(f *testing.F) {
	routes, cases := everyRequest(f)
	table, err := Compile(routes)
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		body := ""
		if c.body != nil {
			body = *c.body
		}
		f.Add(c.in.Scheme, c.authority, c.in.Method, c.in.Target, c.media, body)
	}
	f.Fuzz(func(t *testing.T, scheme, host, method, target, media, body string) {
		authority, err := CanonicalAuthority(host, "443")
		if err != nil {
			return
		}
		in := Input{Scheme: scheme, Authority: authority, Method: method, Target: target, Header: http.Header{}}
		if in.Body, err = ParseBody(media, "", []byte(body)); err != nil {
			in.Body = nil
		}
		m, err := table.Match(in)
		again, errAgain := table.Match(in)
		if !reflect.DeepEqual(m, again) || !reflect.DeepEqual(err, errAgain) {
			t.Fatalf("two answers: %+v, %v and %+v, %v", m, err, again, errAgain)
		}
		owned := table.Host(scheme, authority) == HostOwned
		if checked := CheckTarget(target); owned && (checked != nil) && err == nil {
			t.Fatalf("Match accepts a target that CheckTarget refuses: %v", checked)
		}
		if !owned && (m.Action != "" || err != nil) {
			t.Fatalf("a host that is not ours: %+v, %v", m, err)
		}
		if in.Body != nil && m.NeedBody {
			t.Fatal("asks for a body it was given")
		}
		if err != nil {
			checkError(t, err)
			return
		}
		if _, err := json.Marshal(m); err != nil {
			t.Fatalf("arguments cannot be recorded: %v", err)
		}
	})
}

func checkError(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Msg == "" || e.Code != "ambiguous_target" && e.Code != "invalid_input" || !utf8.ValidString(e.Msg) {
		t.Fatalf("not a classified error: %#v", err)
	}
}

func FuzzCheckTarget(f *testing.F) {
	_, cases := everyRequest(f)
	for _, c := range cases {
		f.Add(c.in.Target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if err := CheckTarget(target); err != nil {
			checkError(t, err)
			return
		}
		path, _, _ := strings.Cut(target, "?")
		decoded := string(appendUnescaped(nil, path))
		if path[0] != '/' || strings.ContainsAny(path, "#\\ ") || strings.Contains(path, "//") || !utf8.ValidString(decoded) || strings.IndexFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
			t.Fatalf("%q is accepted", target)
		}
		for _, seg := range strings.Split(decoded, "/") {
			if seg == "." || seg == ".." {
				t.Fatalf("%q is accepted", target)
			}
		}
	})
}

func FuzzParseBody(f *testing.F) {
	_, cases := everyRequest(f)
	for _, c := range cases {
		if c.body != nil {
			f.Add(c.media, []byte(*c.body))
		}
	}
	f.Fuzz(func(t *testing.T, media string, raw []byte) {
		b, err := ParseBody(media, "", raw)
		if err != nil {
			checkError(t, err)
			return
		}
		if b.form != nil || !b.given {
			return
		}
		// What we accept the standard library accepts, with the same value.
		var want any
		dec := json.NewDecoder(strings.NewReader(string(raw)))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil || !reflect.DeepEqual(want, b.Value()) {
			t.Fatalf("got %#v; encoding/json has %#v, %v", b.Value(), want, err)
		}
	})
}

func FuzzGraphQL(f *testing.F) {
	for _, document := range []string{"{a}", "query Q($a: Int = 1) @d {a}", "mutation M{a} query Q{b}", "fragment F on T{a} {b}", "#}\n{a(b: \"\"\"\\\"\"\"\"\"\", c: \"\\\"\")}", "\ufeffsubscription{a}"} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		operations, ok := parseGraphQL(document)
		if !ok {
			return
		}
		if len(operations) == 0 {
			t.Fatal("accepted without an operation")
		}
		// Comments and commas mean nothing: with more of them it is the same document.
		again, ok := parseGraphQL(",#}{\n" + document + "\n# mutation{x}\r,")
		if !ok || !reflect.DeepEqual(operations, again) {
			t.Fatalf("%v, then %v", operations, again)
		}
		if _, ok := parseGraphQL(document + "}"); ok && !strings.Contains(document, "#") {
			t.Fatal("one bracket more is accepted")
		}
	})
}

func FuzzCanonicalAuthority(f *testing.F) {
	for _, s := range []string{"api.good.test:443", "API.test.", "[::1]:80", "bücher.test", "xn--80ak6aa92e.test", "127.0.0.1", "a..b", "u@h", "a。b", "a.xn--"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := CanonicalAuthority(s, "443")
		if err != nil {
			checkError(t, err)
			return
		}
		if again, err := CanonicalAuthority(got, ""); err != nil || again != got {
			t.Fatalf("%q → %q → %q, %v", s, got, again, err)
		}
		if strings.ToLower(got) != got || !isASCII(got) || strings.ContainsAny(got, "@/\\?#%") || strings.HasSuffix(got[:strings.LastIndexByte(got, ':')], ".") {
			t.Fatalf("%q → %q", s, got)
		}
	})
}
