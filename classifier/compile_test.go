package classifier

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

func get(source, action, path string) Route {
	return Route{
		Action: action, Service: "s", Source: source, Path: path, Args: placeholders(path),
		Schemes: []string{"https"}, Authorities: []string{"api.test:443"}, Methods: []string{"GET"},
	}
}

// compileTable prepares the routes and joins them. The error holds all problems of both steps.
func compileTable(routes []Route) (*Table, error) {
	var problems []error
	list := make([]Prepared, 0, len(routes))
	for _, r := range routes {
		one, err := Prepare(r)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		list = append(list, one)
	}
	t, err := Join(list)
	if err := errors.Join(append(problems, err)...); err != nil {
		return nil, err
	}
	return t, nil
}

func with(r Route, d Discriminators) Route { r.Match = d; return r }

func TestRoutesThatCouldBothWinDoNotCompile(t *testing.T) {
	query := func(pairs ...string) Discriminators { return Discriminators{Query: pairMap(pairs)} }
	body := func(pairs ...string) Discriminators { return Discriminators{Body: pairMap(pairs)} }
	graphql := func(typ, op string) Discriminators {
		return Discriminators{GraphQL: &GraphQL{Type: typ, Operation: op}}
	}
	looking := func(typ string, fields ...string) Discriminators {
		return Discriminators{GraphQL: &GraphQL{Type: typ, Fields: fields}}
	}
	document := func(text string) Discriminators {
		return Discriminators{GraphQL: &GraphQL{Type: "mutation"}, Body: pairMap([]string{"/query", text})}
	}
	ranked := func(rank int, r Route, d Discriminators) Route { r.Rank, r.Match = rank, d; return r }
	rpc := func(method string, pairs ...string) Discriminators {
		return Discriminators{JSONRPC: &JSONRPC{Method: method, Params: pairMap(pairs)}}
	}
	for _, c := range []struct {
		name    string
		a, b    Route
		overlap bool
	}{
		{"the same pattern", get("a", "x.a", "/p/{one}"), get("b", "x.b", "/p/{two}"), true},
		{"the same typed pattern", get("a", "x.a", "/p/{one:int}"), get("b", "x.b", "/p/{two:int}"), true},
		{"rest and catch-all", get("a", "x.a", "/p/{one...}"), get("b", "x.b", "/p/**"), true},
		{"typed is more specific", get("a", "x.a", "/p/{one:int}"), get("b", "x.b", "/p/{two}"), false},
		{"literal is more specific", get("a", "x.a", "/p/one"), get("b", "x.b", "/p/{two}"), false},
		{"final slash", get("a", "x.a", "/p/one/"), get("b", "x.b", "/p/one"), false},
		{"a condition is more specific", with(get("a", "x.a", "/p"), query("k", "1")), get("b", "x.b", "/p"), false},
		{"two values", with(get("a", "x.a", "/p"), query("k", "1")), with(get("b", "x.b", "/p"), query("k", "2")), false},
		{"one value", with(get("a", "x.a", "/p"), query("k", "1")), with(get("b", "x.b", "/p"), query("k", "1")), true},
		{"value and presence", with(get("a", "x.a", "/p"), query("k", "1")), with(get("b", "x.b", "/p"), query("k", "*")), false},
		{"two keys", with(get("a", "x.a", "/p"), query("k", "1")), with(get("b", "x.b", "/p"), query("l", "1")), true},
		{"two keys, one of them apart", with(get("a", "x.a", "/p"), query("k", "1", "m", "1")), with(get("b", "x.b", "/p"), query("l", "1", "m", "2")), false},
		{"more of the same", with(get("a", "x.a", "/p"), query("k", "1", "l", "2")), with(get("b", "x.b", "/p"), query("k", "1")), false},
		{"two elements of one list of the query", with(get("a", "x.a", "/p"), query("l[]", "A", "m", "1")), with(get("b", "x.b", "/p"), query("l[]", "B")), true},
		{"a list of the query and more of the same", with(get("a", "x.a", "/p"), query("l[]", "A", "m", "1")), with(get("b", "x.b", "/p"), query("l[]", "A")), false},
		{"a list of the query and no condition", with(get("a", "x.a", "/p"), query("l[]", "A|B")), get("b", "x.b", "/p"), false},
		{"query and body", with(get("a", "x.a", "/p"), query("k", "1")), with(get("b", "x.b", "/p"), body("/k", "2")), true},
		{"joined pointers and no condition", with(get("a", "x.a", "/p"), body("/k|/l", "true")), get("b", "x.b", "/p"), false},
		{"joined pointers and one of them", with(get("a", "x.a", "/p"), body("/k|/l", "true")), with(get("b", "x.b", "/p"), body("/l", "true")), true},
		{"joined pointers and one of them with another value", with(get("a", "x.a", "/p"), body("/k|/l", "true")), with(get("b", "x.b", "/p"), body("/l", "false")), true},
		{"joined pointers and two values of one", with(get("a", "x.a", "/p"), body("/k|/l", "true")), with(get("b", "x.b", "/p"), body("/l", "false", "/m", "1")), true},
		{"joined pointers in another order", with(get("a", "x.a", "/p"), body("/k|/l", "true")), with(get("b", "x.b", "/p"), body("/l|/k", "true")), true},
		{"the same joined pointers, two values", with(get("a", "x.a", "/p"), body("/k|/l", "true")), with(get("b", "x.b", "/p"), body("/k|/l", "false")), true},
		{"the same joined pointers and more", with(get("a", "x.a", "/p"), body("/k|/l", "true", "/m", "1")), with(get("b", "x.b", "/p"), body("/k|/l", "true")), false},
		{"elements and no condition", with(get("a", "x.a", "/p"), body("/l/*", "A")), get("b", "x.b", "/p"), false},
		{"two elements of one list", with(get("a", "x.a", "/p"), body("/l/*", "A")), with(get("b", "x.b", "/p"), body("/l/*", "B")), true},
		{"one number in two spellings", with(get("a", "x.a", "/p"), body("/k", "1")), with(get("b", "x.b", "/p"), body("/k", "1.0")), true},
		{"graphql types", with(get("a", "x.a", "/p"), graphql("query", "")), with(get("b", "x.b", "/p"), graphql("mutation", "")), false},
		{"graphql type and operation", with(get("a", "x.a", "/p"), graphql("query", "")), with(get("b", "x.b", "/p"), graphql("query", "Q")), false},
		{"graphql type or operation", with(get("a", "x.a", "/p"), graphql("query", "")), with(get("b", "x.b", "/p"), graphql("", "Q")), true},
		{"graphql fields and their type", ranked(3, get("a", "x.a", "/p"), looking("mutation", "delete*")), ranked(2, get("b", "x.b", "/p"), graphql("mutation", "")), false},
		{"graphql fields of a lesser action", ranked(1, get("a", "x.a", "/p"), looking("mutation", "add*")), ranked(2, get("b", "x.b", "/p"), graphql("mutation", "")), true},
		{"graphql fields without a type", ranked(3, get("a", "x.a", "/p"), looking("", "delete*")), ranked(2, get("b", "x.b", "/p"), graphql("mutation", "")), true},
		{"graphql fields of two ranks", ranked(3, get("a", "x.a", "/p"), looking("mutation", "delete*")), ranked(4, get("b", "x.b", "/p"), looking("mutation", "invite*")), false},
		{"graphql fields of one rank", ranked(3, get("a", "x.a", "/p"), looking("mutation", "delete*")), ranked(3, get("b", "x.b", "/p"), looking("mutation", "invite*")), true},
		{"graphql fields of two types", ranked(3, get("a", "x.a", "/p"), looking("mutation", "delete*")), ranked(3, get("b", "x.b", "/p"), looking("query", "delete*")), false},
		{"graphql fields and a name", ranked(3, get("a", "x.a", "/p"), looking("mutation", "delete*")), ranked(4, get("b", "x.b", "/p"), graphql("mutation", "Drop")), true},
		{"a document with such a field", ranked(1, get("a", "x.a", "/p"), document("mutation{deleteIt}")), ranked(3, get("b", "x.b", "/p"), looking("mutation", "delete*")), false},
		{"a document without such a field", ranked(1, get("a", "x.a", "/p"), document("mutation{addIt}")), ranked(3, get("b", "x.b", "/p"), looking("mutation", "delete*")), false},
		{"a document that cannot be read", ranked(1, get("a", "x.a", "/p"), document("mutation{addIt")), ranked(3, get("b", "x.b", "/p"), looking("mutation", "delete*")), true},
		{"rpc methods", with(get("a", "x.a", "/p"), rpc("m")), with(get("b", "x.b", "/p"), rpc("n")), false},
		{"rpc params", with(get("a", "x.a", "/p"), rpc("m", "/name", "x")), with(get("b", "x.b", "/p"), rpc("m", "/name", "y")), false},
		{"rpc method and params", with(get("a", "x.a", "/p"), rpc("m", "/name", "x")), with(get("b", "x.b", "/p"), rpc("m")), false},
		{"rpc and graphql", with(get("a", "x.a", "/p"), rpc("m")), with(get("b", "x.b", "/p"), graphql("query", "")), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, routes := range [][]Route{{c.a, c.b}, {c.b, c.a}} {
				_, err := compileTable(routes)
				var overlap *OverlapError
				if got := errors.As(err, &overlap); got != c.overlap {
					t.Fatalf("overlap = %v, want %v (%v)", got, c.overlap, err)
				}
			}
		})
	}
}

func pairMap(pairs []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func TestOtherOriginsAndMethodsDoNotOverlap(t *testing.T) {
	base := get("a", "x.a", "/p")
	for name, change := range map[string]func(*Route){
		"method":    func(r *Route) { r.Methods = []string{"POST"} },
		"authority": func(r *Route) { r.Authorities = []string{"api.test:8443"} },
		"scheme":    func(r *Route) { r.Schemes = []string{"http"} },
	} {
		other := get("b", "x.b", "/p")
		change(&other)
		if _, err := compileTable([]Route{base, other}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOverlapNamesBothSourcesOnce(t *testing.T) {
	a, b := get("a.yaml:10", "x.a", "/p/{one}"), get("b.yaml:4", "y.b", "/p/{two}")
	a.Methods, b.Methods = []string{"GET", "PUT"}, []string{"GET", "PUT"}
	_, err := compileTable([]Route{a, b})
	if err == nil {
		t.Fatal("no error")
	}
	text := err.Error()
	for _, want := range []string{"a.yaml:10", "b.yaml:4", "x.a", "y.b", "/p/{two}", "https://api.test:443", "change the path or method"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	if n := strings.Count(text, "both match"); n != 1 {
		t.Errorf("reported %d times: %s", n, text)
	}
}

// Some hundred routes that are alike are some ten thousand pairs: the first are enough.
func TestOfVeryManyOverlapsTheFirstAreNamed(t *testing.T) {
	var routes []Route
	for i := range 200 {
		routes = append(routes, get(fmt.Sprintf("a.yaml:%03d", i), fmt.Sprintf("x.a%d", i), "/p"))
	}
	_, err := compileTable(routes)
	if !errors.Is(err, ErrMoreOverlaps) {
		t.Fatal(err)
	}
	if n := strings.Count(err.Error(), "both match"); n != mostOverlaps || !strings.Contains(err.Error(), "a.yaml:089") {
		t.Errorf("%d pairs: %s", n, err)
	}
}

func TestRoutesThatDoNotCompile(t *testing.T) {
	arg := func(a Arg) func(*Route) { return func(r *Route) { r.Args = []Arg{a} } }
	for name, change := range map[string]func(*Route){
		"no action":                   func(r *Route) { r.Action = "" },
		"no scheme":                   func(r *Route) { r.Schemes = nil },
		"strange scheme":              func(r *Route) { r.Schemes = []string{"ftp"} },
		"no authority":                func(r *Route) { r.Authorities = nil },
		"authority without port":      func(r *Route) { r.Authorities = []string{"api.test"} },
		"authority in capitals":       func(r *Route) { r.Authorities = []string{"API.test:443"} },
		"no method":                   func(r *Route) { r.Methods = nil },
		"method with a space":         func(r *Route) { r.Methods = []string{"GE T"} },
		"CONNECT":                     func(r *Route) { r.Methods = []string{"CONNECT"} },
		"relative path":               func(r *Route) { r.Path = "p" },
		"empty segment":               func(r *Route) { r.Path = "/p//q" },
		"dot segment":                 func(r *Route) { r.Path = "/p/../q" },
		"query in the path":           func(r *Route) { r.Path = "/p?q" },
		"encoded slash in a literal":  func(r *Route) { r.Path = "/p%2Fq" },
		"catch-all in the middle":     func(r *Route) { r.Path = "/**/q" },
		"rest in the middle":          func(r *Route) { r.Path = "/{a...}/q" },
		"mixed segment":               func(r *Route) { r.Path = "/{a}.json" },
		"unknown type":                func(r *Route) { r.Path = "/{a:uuid}" },
		"no placeholder name":         func(r *Route) { r.Path = "/{}" },
		"placeholder twice":           func(r *Route) { r.Path = "/{a}/{a}" },
		"star":                        func(r *Route) { r.Path = "/a*" },
		"argument without name":       arg(Arg{In: InQuery, Key: "k"}),
		"argument nowhere":            arg(Arg{Name: "a", Key: "k"}),
		"argument of unknown type":    arg(Arg{Name: "a", In: InQuery, Key: "k", Type: "date"}),
		"argument without key":        arg(Arg{Name: "a", In: InQuery}),
		"argument not in the path":    arg(Arg{Name: "a", In: InPath, Key: "z"}),
		"argument with a bad pointer": arg(Arg{Name: "a", In: InBody, Key: "/a~2"}),
		"joined without a slash":      func(r *Route) { r.Match.Body = map[string]string{"archived|in_trash": "true"} },
		"joined, one without a slash": func(r *Route) { r.Match.Body = map[string]string{"/archived|in_trash": "true"} },
		"joined with nothing":         func(r *Route) { r.Match.Body = map[string]string{"/archived|": "true"} },
		"nothing joined":              func(r *Route) { r.Match.Body = map[string]string{"|/archived": "true"} },
		"values joined with nothing":  func(r *Route) { r.Match.Query = map[string]string{"to": "a|"} },
		"values joined with any":      func(r *Route) { r.Match.Header = map[string]string{"X-To": "a|*"} },
		"values with blanks around":   func(r *Route) { r.Match.Query = map[string]string{"to": "a | b"} },
		"joined with a bad pointer":   func(r *Route) { r.Match.Body = map[string]string{"/a|/b~2": "true"} },
		"rpc joined without a slash": func(r *Route) {
			r.Match.JSONRPC = &JSONRPC{Method: "m", Params: map[string]string{"a|b": "true"}}
		},
		"pattern without a group":    arg(Arg{Name: "a", In: InQuery, Key: "k", Pattern: regexp.MustCompile("x")}),
		"pattern of too few groups":  arg(Arg{Name: "a", In: InQuery, Key: "k", Pattern: regexp.MustCompile("(x)"), Group: 1}),
		"two arguments, one key":     func(r *Route) { r.Args = []Arg{{Name: "a", In: InQuery, Key: "k"}, {Name: "b", In: InQuery, Key: "k"}} },
		"graphql that says nothing":  func(r *Route) { r.Match.GraphQL = &GraphQL{} },
		"graphql field with a dot":   func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"a.b"}} },
		"graphql field in a field":   func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"a.**.b"}} },
		"graphql field at no depth":  func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"*.a"}} },
		"graphql field of two paths": func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"**.**.a"}} },
		"graphql depth without name": func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"**."}} },
		"graphql field of a digit":   func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"1a"}} },
		"graphql field without name": func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"a", "!"}} },
		"graphql fields taken out":   func(r *Route) { r.Match.GraphQL = &GraphQL{Fields: []string{"!a"}} },
		"graphql of unknown type":    func(r *Route) { r.Match.GraphQL = &GraphQL{Type: "Query"} },
		"jsonrpc without method":     func(r *Route) { r.Match.JSONRPC = &JSONRPC{} },
		"two protocols": func(r *Route) {
			r.Match.GraphQL, r.Match.JSONRPC = &GraphQL{Type: "query"}, &JSONRPC{Method: "m"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := get("file.yaml:7", "x.a", "/p/{q}")
			change(&r)
			_, err := compileTable([]Route{r})
			var problem *RouteError
			if !errors.As(err, &problem) || problem.Source != "file.yaml:7" {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestEveryProblemIsReported(t *testing.T) {
	_, err := compileTable([]Route{get("a:1", "x.a", "p"), get("a:2", "x.b", "/{}"), get("a:3", "x.c", "/p"), get("a:4", "x.d", "/p")})
	for _, want := range []string{"a:1", "a:2", "a:3", "a:4"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestZeroTableOwnsNothing(t *testing.T) {
	for _, table := range []*Table{nil, {}} {
		m, err := table.Match(Input{Scheme: "https", Authority: "a.test:443", Method: "GET", Target: "/"})
		if err != nil || m.Action != "" || m.NeedBody || table.Intercepts("a.test:443") || table.Host("https", "a.test:443") != HostForeign {
			t.Errorf("got %+v, %v", m, err)
		}
	}
}

func TestInterceptsWhatItOwnsAndItsCleartextPort(t *testing.T) {
	table, err := compileTable([]Route{get("a", "x.a", "/")})
	if err != nil {
		t.Fatal(err)
	}
	for authority, want := range map[string]bool{"api.test:443": true, "api.test:80": true, "api.test:22": false, "www.api.test:443": false} {
		if got := table.Intercepts(authority); got != want {
			t.Errorf("%s: %v", authority, got)
		}
	}
}

func TestTemplatesAreInverted(t *testing.T) {
	r := get("a", "x.a", "/p")
	r.Methods = []string{"POST"}
	r.Args = []Arg{
		{Name: "branch", In: InBody, Key: "/ref", Type: "string", Pattern: regexp.MustCompile(`^refs/heads/(.+)$`)},
		{Name: "n", In: InQuery, Key: "filter", Type: "integer", Pattern: regexp.MustCompile(`^n:(.*)$`)},
		{Name: "all", In: InBody, Type: "object"},
		{Name: "trace", In: InHeader, Key: "x-trace", Type: "boolean"},
	}
	table, err := compileTable([]Route{r})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, body, trace, want string }{
		{"/p?filter=n:4", `{"ref":"refs/heads/a/b"}`, "true", `x.a all={"ref":"refs/heads/a/b"} branch=a/b n=4 trace=true`},
		{"/p", `{"ref":"refs/tags/a"}`, "true", "invalid_input"},
		{"/p?filter=4", `{}`, "true", "invalid_input"},
		{"/p?filter=n:x", `{}`, "true", "invalid_input"},
		{"/p", `{"ref":7}`, "true", "invalid_input"},
		{"/p", `[]`, "true", "invalid_input"},
		{"/p", `{}`, "yes", "invalid_input"},
	} {
		line := requestLine{authority: "api.test", media: "application/json", body: &c.body}
		line.in = Input{Scheme: "https", Method: "POST", Target: c.target, Header: map[string][]string{"X-Trace": {c.trace}}}
		if got := answer(table, line); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.target, c.body, got, c.want)
		}
	}
}

// Of a list of the query each element counts, as to those who read it: clients ask for
// several things at once, and where the one that decides stands is no matter.
func TestAConditionLooksAtEachElementOfAListInTheQuery(t *testing.T) {
	open, guarded := get("list", "x.list", "/p"), get("keys", "x.keys", "/p")
	guarded.Match.Query = map[string]string{"include[]": "keys|hooks"}
	table, err := compileTable([]Route{open, guarded})
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]string{
		"/p":                                     "x.list",
		"/p?include[]=teams&include[]=policies":  "x.list",
		"/p?includes=keys&total=true":            "x.list",
		"/p?include[]=keys":                      "x.keys",
		"/p?include[]=teams&include%5B%5D=hooks": "x.keys",
		"/p?include[]=keys&include[]=teams":      "x.keys",
		"/p?include[]=keys&include[]=hooks":      "x.keys",
		"/p?include[]=teams&include[]=Keys":      "invalid_input ambiguous_parameter",
		"/p?include[]=keys&include[]=+keys":      "invalid_input ambiguous_parameter",
		"/p?include=keys":                        "invalid_input duplicate_parameter",
		"/p?include[0]=keys":                     "invalid_input duplicate_parameter",
		"/p?include[]=teams&Include[]=keys":      "invalid_input duplicate_parameter",
		"/p?include[]=teams;include[]=keys":      "invalid_input ambiguous_parameter",
		"/p?a=1;include[]=keys":                  "invalid_input duplicate_parameter",
	} {
		line := requestLine{authority: "api.test"}
		line.in = Input{Scheme: "https", Method: "GET", Target: target}
		if got, _, _ := strings.Cut(answer(table, line), " ?"); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}

func TestAnArgumentMappedTwiceMustAgree(t *testing.T) {
	r := get("a", "x.a", "/p/{id}")
	r.Args = append(r.Args, Arg{Name: "id", In: InQuery, Key: "id", Type: "string"}, Arg{Name: "id", In: InBody, Key: "/id", Type: "string"})
	table, err := compileTable([]Route{r})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ target, body, want string }{
		{"/p/a?id=a", `{"id":"a"}`, "x.a id=a"},
		{"/p/a?id=b", `{"id":"a"}`, "invalid_input ambiguous_parameter"},
		{"/p/a?id=a", `{"id":"b"}`, "invalid_input ambiguous_parameter"},
		{"/p/a?id=a&id=a", `{}`, "invalid_input duplicate_parameter"},
	} {
		line := requestLine{authority: "api.test", media: "application/json", body: &c.body}
		line.in = Input{Scheme: "https", Method: "GET", Target: c.target}
		if got := answer(table, line); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.target, c.body, got, c.want)
		}
	}
}
