package classifier

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// script is a file of testdata: routes and the requests they must recognise.
type script struct {
	routes []Route
	cases  []requestLine
}

type requestLine struct {
	name, text string
	in         Input
	authority  string // as written
	media      string
	coding     string
	body       *string
	want       string
}

func TestRequestsAreTheActionsThatTestdataSays(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 4 {
		t.Fatalf("testdata: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := readScript(t, file)
			table, err := compileTable(s.routes)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range s.cases {
				t.Run(c.name, func(t *testing.T) {
					if got := answer(table, c); got != c.want {
						t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
					}
				})
			}
		})
	}
}

// answer classifies a request the way a surface does and writes the result the
// way testdata does.
func answer(table *Table, c requestLine) string {
	in := c.in
	port := map[string]string{"https": "443", "http": "80"}[in.Scheme]
	var err error
	if in.Authority, err = CanonicalAuthority(c.authority, port); err != nil {
		return failure(err)
	}
	switch table.Host(in.Scheme, in.Authority) {
	case HostForeign:
		return "foreign"
	case HostInsecure:
		return "insecure"
	}
	if c.body != nil {
		if in.Body, err = ParseBody(c.media, c.coding, []byte(*c.body)); err != nil {
			return failure(err)
		}
	}
	m, err := table.Match(in)
	if checked := CheckTarget(in.Target); checked != nil && err == nil {
		return "Match accepts what CheckTarget refuses: " + checked.Error()
	}
	switch {
	case err != nil:
		return failure(err)
	case m.NeedBody:
		return "needs body"
	case m.Action == "":
		return "unmatched"
	}
	words := []string{m.Action}
	if m.Upgrade {
		words = []string{"upgrade", m.Action}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Args)) {
		words = append(words, name+"="+written(m.Args[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Query)) {
		words = append(words, "?"+name+"="+written(m.Query[name]))
	}
	astray := slices.Clone(m.Astray)
	slices.Sort(astray)
	for _, name := range slices.Compact(astray) {
		words = append(words, "astray:"+name)
	}
	return strings.Join(words, " ")
}

func failure(err error) string {
	var e *Error
	if !errors.As(err, &e) {
		return "not an *Error: " + err.Error()
	}
	return strings.TrimSpace(e.Code + " " + e.Reason)
}

func written(v any) string {
	if s, ok := v.(string); ok {
		if s == "" || json.Valid([]byte(s)) && !strings.HasPrefix(s, "{") || strings.Contains(s, " ") {
			return strconv.Quote(s)
		}
		return s
	}
	out, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

func readScript(t testing.TB, file string) script {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var s script
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		source := fmt.Sprintf("%s:%d", file, n)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "route "):
			s.routes = append(s.routes, readRoute(t, source, line))
		default:
			s.cases = append(s.cases, readRequest(t, source, line))
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return s
}

// route ACTION METHODS SCHEME://HOST/PATTERN [word...]
func readRoute(t testing.TB, source, line string) Route {
	t.Helper()
	words := strings.Fields(line)[1:]
	scheme, rest, _ := strings.Cut(words[2], "://")
	host, path, _ := strings.Cut(rest, "/")
	authority, err := CanonicalAuthority(host, map[string]string{"https": "443", "http": "80"}[scheme])
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	service, _, _ := strings.Cut(words[0], ".")
	r := Route{
		Action: words[0], Service: service, Source: source, Path: "/" + path,
		Schemes: []string{scheme}, Authorities: []string{authority}, Methods: strings.Split(words[1], ","),
	}
	r.Args = placeholders(r.Path)
	for words = words[3:]; len(words) > 0; words = words[1:] {
		switch word := words[0]; {
		case word == "allow_slash":
			r.AllowSlash = true
		case word == "strict":
			r.Strict = true
		case word == "rank":
			if r.Rank, err = strconv.Atoi(words[1]); err != nil {
				t.Fatalf("%s: %v", source, err)
			}
			words = words[1:]
		case word == "if":
			words = readCondition(&r.Match, words)
		default:
			parts := strings.Split(word, ":")
			arg := Arg{In: Place(parts[0]), Key: parts[1], Type: parts[2], Name: parts[1]}
			if len(parts) == 4 {
				arg.Name = parts[3]
			}
			r.Args = append(r.Args, arg)
		}
	}
	return r
}

// readCondition returns the last word it has used, and what follows.
func readCondition(d *Discriminators, words []string) []string {
	add := func(m map[string]string, pair string) map[string]string {
		if m == nil {
			m = map[string]string{}
		}
		key, value, _ := strings.Cut(pair, "=")
		m[key] = value
		return m
	}
	switch words[1] {
	case "query":
		d.Query = add(d.Query, words[2])
	case "header":
		d.Header = add(d.Header, words[2])
	case "body":
		d.Body = add(d.Body, words[2])
	case "graphql":
		typ, operation, _ := strings.Cut(words[2], "/")
		operation, fields, some := strings.Cut(operation, "/")
		d.GraphQL = &GraphQL{Type: typ, Operation: operation}
		if some {
			d.GraphQL.Fields = strings.Split(fields, ",")
		}
	case "jsonrpc":
		d.JSONRPC = &JSONRPC{Method: words[2]}
		for len(words) > 3 && strings.HasPrefix(words[3], "/") {
			d.JSONRPC.Params = add(d.JSONRPC.Params, words[3])
			words = words[1:]
		}
	}
	return words[2:]
}

// placeholders makes an argument of every placeholder of a pattern.
func placeholders(path string) (args []Arg) {
	for _, m := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(path, -1) {
		name, isInt := strings.CutSuffix(strings.TrimSuffix(m[1], "..."), ":int")
		arg := Arg{Name: name, Key: name, In: InPath, Type: "string"}
		if isInt {
			arg.Type = "integer"
		}
		args = append(args, arg)
	}
	return args
}

var fieldPattern = regexp.MustCompile(` \[([A-Za-z_-]+): ?([^\]]*)\]`)

// [ID:] METHOD URL [Field: value]... [<< BODY] → RESULT
func readRequest(t testing.TB, source, line string) requestLine {
	t.Helper()
	c := requestLine{name: source, text: source + ": " + line, media: "application/json"}
	head, want, ok := cutLast(line, " → ")
	if !ok {
		t.Fatalf("%s: no result", source)
	}
	c.want = want
	if id, rest, ok := strings.Cut(head, ": "); ok && strings.HasPrefix(id, "CB-") {
		c.name, head = id, rest
	}
	if before, quoted, ok := strings.Cut(head, " <<q "); ok {
		body, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		head, c.body = before, &body
	} else if before, body, ok := strings.Cut(head, " << "); ok {
		head, c.body = before, &body
	}
	c.in.Header = http.Header{}
	for _, m := range fieldPattern.FindAllStringSubmatch(head, -1) {
		c.in.Header.Add(m[1], m[2])
		switch m[1] {
		case "Content-Type":
			c.media = m[2]
		case "Content-Encoding":
			c.coding = m[2]
		}
	}
	head = fieldPattern.ReplaceAllString(head, "")
	method, url, _ := strings.Cut(head, " ")
	scheme, rest, _ := strings.Cut(url, "://")
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		t.Fatalf("%s: no path", source)
	}
	c.in.Method, c.in.Scheme, c.authority, c.in.Target = method, scheme, rest[:slash], rest[slash:]
	return c
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
