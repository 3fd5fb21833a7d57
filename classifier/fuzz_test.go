package classifier

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
		if _, err := compileTable(append(kept[:len(kept):len(kept)], r)); err == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

func FuzzMatch(f *testing.F) {
	routes, cases := everyRequest(f)
	table, err := compileTable(routes)
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
		for _, o := range m.Others { // each is the request that the server reads, which may be refused if it is sent
			as := in
			as.Target = o.Target
			if read, err := table.Match(as); err == nil && !strings.Contains(o.Target, "%2F") && (read.Action != o.Action || len(o.Args) > 0 && !reflect.DeepEqual(read.Args, o.Args)) {
				t.Fatalf("%s of %s is told as %s %v, and read as %s %v", o.Target, target, o.Action, o.Args, read.Action, read.Args)
			}
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

// argumentRoutes read an argument from every place.
func argumentRoutes() []Route {
	const authority = "api.test:443"
	args := []Arg{
		{Name: "owner", In: InPath, Key: "owner", Type: "string"}, {Name: "id", In: InPath, Key: "id", Type: "integer"}, {Name: "file", In: InPath, Key: "file"},
		{Name: "q", In: InQuery, Key: "q", Type: "string"}, {Name: "n", In: InQuery, Key: "n", Type: "number"},
		{Name: "on", In: InQuery, Key: "on", Type: "boolean"}, {Name: "tags", In: InQuery, Key: "tag", Type: "array"},
	}
	body := []Arg{{Name: "title", In: InBody, Key: "/title", Type: "string"}, {Name: "deep", In: InBody, Key: "/a/b", Type: "integer"}, {Name: "list", In: InBody, Key: "/list", Type: "array"}}
	return []Route{
		{Action: "s.get", Service: "s", Schemes: []string{"https"}, Authorities: []string{authority}, Methods: []string{"GET"}, Path: "/o/{owner}/{id:int}/{file...}", Args: args, Source: "a:1"},
		{Action: "s.put", Service: "s", Schemes: []string{"https"}, Authorities: []string{authority}, Methods: []string{"PUT"}, Path: "/o/{owner}", Strict: true, Args: append(args[:1:1], body...), Source: "a:2"},
	}
}

// What an argument is read as, the standard library's readers of paths,
// queries, forms and JSON read as well: a policy judges what the upstream sees.
func FuzzArguments(f *testing.F) {
	table, err := compileTable(argumentRoutes())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("/o/me/7/a/b%20c?q=x%26y&n=1.5&on=true&tag=a&tag=b&other=1", "", "")
	f.Add("/o/%6De/-7/x?q=a+b&q%20=c&&=&tag", "", "")
	f.Add("/o/me", "application/json", `{"title":"a\u0062\ud83d\ude00","a":{"b":12345678901234567890},"list":[1,"x",{}]}`)
	f.Add("/o/me", "application/x-www-form-urlencoded", "title=a%20b+c&list=1&list=2&x")
	f.Fuzz(func(t *testing.T, target, media, raw string) {
		in := Input{Scheme: "https", Authority: "api.test:443", Method: "GET", Target: target, Header: http.Header{}}
		if raw != "" {
			in.Method = "PUT"
			if in.Body, err = ParseBody(media, "", []byte(raw)); err != nil {
				return
			}
		}
		m, err := table.Match(in)
		if err != nil || m.Action == "" || m.NeedBody {
			return
		}
		path, query, _ := strings.Cut(target, "?")
		want := map[string]any{}
		for i, segment := range strings.SplitN(path, "/", 5)[2:] {
			plain, err := url.PathUnescape(segment)
			if err != nil {
				t.Fatalf("%q matches: %v", target, err)
			}
			want[[]string{"owner", "id", "file"}[i]] = plain
		}
		fields, err := url.ParseQuery(query)
		if err != nil {
			return // a ";", which net/url takes for nothing at all
		}
		for key, name := range map[string]string{"q": "q", "n": "n", "on": "on", "tag": "tags"} {
			if list, given := fields[key]; given && in.Method == "GET" {
				want[name] = list
			}
		}
		if in.Method == "PUT" {
			expectBody(t, in.Body, raw, want)
		}
		for name, value := range want {
			if !sameArgument(m.Args[name], value) {
				t.Fatalf("%s %q %q: %s is %#v, to the standard library %#v", in.Method, target, raw, name, m.Args[name], value)
			}
		}
		for name := range m.Args {
			if _, ok := want[name]; !ok {
				t.Fatalf("%s %q %q: %s was read out of nothing", in.Method, target, raw, name)
			}
		}
	})
}

// expectBody adds what the standard library reads of a body.
func expectBody(t *testing.T, b *Body, raw string, want map[string]any) {
	t.Helper()
	if b.form != nil {
		fields, err := url.ParseQuery(raw)
		if err != nil {
			t.Fatalf("the form %q is accepted: %v", raw, err)
		}
		for _, name := range []string{"title", "list"} {
			if list, given := fields[name]; given {
				want[name] = list
			}
		}
		if list, given := fields["a/b"]; given {
			want["deep"] = list
		}
		return
	}
	var document struct {
		Title any `json:"title"`
		A     struct {
			B any `json:"b"`
		} `json:"a"`
		List any `json:"list"`
	}
	dec := json.NewDecoder(strings.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&document) != nil {
		return // the members are of another kind, so that they are no arguments
	}
	for name, value := range map[string]any{"title": document.Title, "deep": document.A.B, "list": document.List} {
		if value != nil {
			want[name] = value
		}
	}
}

// sameArgument compares an argument with a reading of the standard library: a
// list of texts stands for one text, or for an array.
func sameArgument(got, want any) bool {
	list, many := want.([]string)
	if !many {
		if text, ok := want.(string); ok {
			return fmt.Sprint(got) == text
		}
		return reflect.DeepEqual(got, want)
	}
	if elements, ok := got.([]any); ok {
		return fmt.Sprint(elements) == fmt.Sprint(list) && len(elements) == len(list)
	}
	return len(list) == 1 && fmt.Sprint(got) == list[0]
}
