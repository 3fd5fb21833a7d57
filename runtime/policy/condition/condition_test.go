package condition_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

func compile(t testing.TB, text string, action *runtime.Action) *condition.Condition {
	t.Helper()
	c, err := condition.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	compiled, problems := c.Compile(text, action)
	if len(problems) > 0 {
		t.Fatalf("%s: %+v", text, problems)
	}
	return compiled
}

func question(args runtime.Args) *runtime.Question {
	return &runtime.Question{
		Principal: &runtime.Principal{ID: "local:1", Kind: runtime.KindAgent, Tenant: "default", Agent: "claude", Roles: []string{"dev"}},
		Action:    &runtime.Action{Ref: "a.b", Service: "a", Risk: runtime.RiskLow},
		Request: &runtime.Request{
			Surface: runtime.SurfaceProxy, Raw: &runtime.Raw{Header: http.Header{}},
			Target: runtime.Target{Scheme: "https", Authority: "api.example.com:443", Method: "GET", Path: "/x?q=1"},
		},
		Args: args, Now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
}

// An expression that would take long is an error, not a wait.
func TestCostIsLimited(t *testing.T) {
	list := make([]any, 2000) // of integers
	for i := range list {
		list[i] = json.Number("1")
	}
	c := compile(t, "args.l.all(a, args.l.all(b, a == b))", nil)
	begun := time.Now()
	if _, err := c.Holds(question(runtime.Args{"l": list})); err == nil || err.Error() != "it takes too long" {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if holds, err := c.Holds(question(runtime.Args{"l": list[:20]})); err != nil || !holds {
		t.Errorf("a short one: %v %v", holds, err)
	}
	if _, err := compile(t, `args.x.matches("(a|b)*c")`, nil).Holds(question(runtime.Args{"x": strings.Repeat("a", 1<<20)})); err == nil || err.Error() != "it takes too long" {
		t.Errorf("a pattern: %v", err)
	}
}

// Long, deep and wide expressions are refused when they are compiled.
func TestExpressionsAreLimited(t *testing.T) {
	for name, text := range map[string]string{
		"long": `"` + strings.Repeat("x", 5000) + `" == "x"`,
		"deep": strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300),
		"wide": strings.Repeat("true || ", 400) + "true",
	} {
		c, err := condition.NewCompiler()
		if err != nil {
			t.Fatal(err)
		}
		if compiled, problems := c.Compile(text, nil); len(problems) == 0 || compiled != nil {
			t.Errorf("%s: compiled", name)
		}
	}
}

// Errors are shown and recorded: they name what the author wrote, never what a
// request holds.
func TestErrorsShowNoValues(t *testing.T) {
	const value = "hunter2-in-the-request"
	q := question(runtime.Args{"a": value, "m": map[string]any{"x": "y"}})
	q.Request.Raw.Header.Set("Authorization", value)
	for _, text := range []string{
		"int(args.a) > 1", `args.m[args.a] == 1`, `args.a > 1`, `duration(args.a) > duration("1s")`, `timestamp(args.a) < now`,
		`int(request.headers["authorization"]) > 1`, `"x".matches(args.a + "(")`, `args[args.a]`, `{"a": 1}[args.a] == 1`, `bool(args.a)`,
	} {
		_, err := compile(t, text, nil).Holds(q)
		if err == nil {
			t.Errorf("%s holds", text)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What a record hides is there and cannot be looked at, however it is asked for.
func TestHiddenValuesFail(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Params: []runtime.Param{{Name: "h", Type: runtime.TypeString}}}
	for _, text := range []string{`args.h == "x"`, `args.?h.orValue("") == "x"`, `args.h in ["x"]`, "has(args.h)", "true || has(args.h)"} {
		for _, schema := range []*runtime.Action{nil, action} {
			if holds, err := compile(t, text, schema).Holds(question(runtime.Args{"h": condition.Hidden{}})); err == nil {
				t.Errorf("%s: %t", text, holds)
			}
		}
	}
}

// An argument that stands in another place than the service has it may be read by
// the server or not: no rule takes it for one that is not there.
func TestStrayArgumentsCannotBeJudged(t *testing.T) {
	q := question(runtime.Args{"x": "1"})
	q.Request.Astray = []string{"h", "x"}
	for _, text := range []string{"has(args.h)", `args.?h.orValue("") == "x"`, `args.x == "1"`, "size(args) > 5", `"h" in args`} {
		if holds, err := compile(t, text, nil).Holds(q); err == nil {
			t.Errorf("%s: %t", text, holds)
		}
	}
	if holds, err := compile(t, "has(args.y)", nil).Holds(q); err != nil || holds {
		t.Errorf("another argument: %v %v", holds, err)
	}
}

// Where a body may hold parameters, it is read for an argument of the query too.
func TestArgumentsOfTheQueryNeedABodyWithParameters(t *testing.T) {
	q := question(runtime.Args{})
	q.Action = &runtime.Action{Ref: "a.b", Params: []runtime.Param{{Name: "h", In: runtime.InQuery}, {Name: "p", In: runtime.InPath}}}
	q.Request.Raw.Body = strings.NewReader("h=1")
	for fields, want := range map[bool]bool{true: true, false: false} {
		q.Request.Fields = fields
		if got := compile(t, "has(args.h)", nil).NeedsBody(q); got != want {
			t.Errorf("with parameters %t: %t", fields, got)
		}
		if compile(t, "has(args.p)", nil).NeedsBody(q) {
			t.Error("a body says nothing about the path")
		}
	}
}

// What a rest argument collects is not read back from a request: nobody can say
// whether it is there.
func TestRestArgumentsCannotBeJudged(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Rest: "more", Params: []runtime.Param{{Name: "more", Type: runtime.TypeObject}, {Name: "x", Type: runtime.TypeString}}}
	q, built := question(runtime.Args{"x": "1"}), question(runtime.Args{"x": "1"})
	q.Action, built.Action, built.Request.Raw = action, action, nil
	for _, text := range []string{"!has(args.more)", "has(args.more)", "args.?more == optional.none()", "size(args) > 1"} {
		c := compile(t, text, nil)
		if holds, err := c.Holds(q); err == nil {
			t.Errorf("%s: %t", text, holds)
		}
		if _, err := c.Holds(built); err != nil {
			t.Errorf("%s of a built request: %v", text, err)
		}
	}
	if holds, err := compile(t, `args.x == "1"`, action).Holds(q); err != nil || !holds {
		t.Errorf("another argument: %v %v", holds, err)
	}
}

// A push always says what it pushes: without its references it is one that could
// not be read, however it comes. Other actions may be without an argument so called.
func TestAPushThatWasNotReadCannotBeJudged(t *testing.T) {
	push := &runtime.Action{Ref: "a.push", HTTP: &runtime.HTTPSpec{Push: true}, Params: []runtime.Param{{Name: "refs", Type: runtime.TypeArray, In: runtime.InBody}}}
	for _, text := range []string{"has(args.refs)", `args.?refs.orValue([]).exists(r, r.name == "x")`, `"refs" in args`, "size(args) > 5"} {
		c := compile(t, text, nil)
		read, unread, built, fetch := question(runtime.Args{"refs": []any{}}), question(nil), question(nil), question(nil)
		read.Action, unread.Action, built.Action, built.Request.Raw = push, push, push, nil
		fetch.Action = &runtime.Action{Ref: "a.fetch", HTTP: &runtime.HTTPSpec{}}
		for name, q := range map[string]*runtime.Question{"unread": unread, "built": built} {
			if holds, err := c.Holds(q); err == nil {
				t.Errorf("%s, %s: %t", text, name, holds)
			}
		}
		for name, q := range map[string]*runtime.Question{"read": read, "fetch": fetch} {
			if _, err := c.Holds(q); err != nil {
				t.Errorf("%s, %s: %v", text, name, err)
			}
		}
	}
	q := question(nil)
	q.Action = push
	if holds, err := compile(t, `principal.agent == "claude" && !has(args.repo)`, nil).Holds(q); err != nil || !holds {
		t.Errorf("another argument: %v %v", holds, err)
	}
}

// Bodies in parts and raw ones are not read back: an argument that such a body may
// hold is none that is absent. Of a built request all arguments are known.
func TestArgumentsOfBodiesThatAreNotReadBack(t *testing.T) {
	params := []runtime.Param{
		{Name: "purpose", Type: runtime.TypeString, In: runtime.InBody, Body: true}, {Name: "id", Type: runtime.TypeString, In: runtime.InPath},
		{Name: "both", Type: runtime.TypeString, In: runtime.InQuery, Body: true}, {Name: "page", Type: runtime.TypeString, In: runtime.InQuery},
	}
	for _, kind := range []string{"multipart", "raw", "json", "form"} {
		known := kind == "json" || kind == "form"
		action := &runtime.Action{Ref: "a.b", HTTP: &runtime.HTTPSpec{BodyType: kind}, Params: params}
		for _, text := range []string{"has(args.purpose)", `args.?purpose.orValue("") == "x"`, "has(args.both)"} {
			for _, schema := range []*runtime.Action{nil, action} {
				q, built := question(nil), question(nil)
				q.Action, built.Action, built.Request.Raw = action, action, nil
				q.Request.Document, q.Request.Parsed = map[string]any{"purpose": "x"}, true
				c := compile(t, text, schema)
				if holds, err := c.Holds(q); (err == nil) != known {
					t.Errorf("%s, %s: %t %v", kind, text, holds, err)
				}
				if _, err := c.Holds(built); err != nil {
					t.Errorf("%s, %s of a built request: %v", kind, text, err)
				}
			}
		}
		q := question(runtime.Args{"both": "1"})
		q.Action = action
		if holds, err := compile(t, `size(args) > 7`, nil).Holds(q); (err == nil) != known {
			t.Errorf("%s, all arguments: %t %v", kind, holds, err)
		}
		if holds, err := compile(t, `!has(args.id) && !has(args.page) && args.both == "1"`, action).Holds(q); err != nil || !holds {
			t.Errorf("%s, arguments that are known: %t %v", kind, holds, err)
		}
	}
}

// Servers that hand fields on as variables (CGI, WSGI, Rack) read "_" as "-": a rule
// sees both as one field. What it says of a name with "_" goes on holding.
func TestFieldsWithAnUnderscoreAreSeen(t *testing.T) {
	for _, c := range []struct {
		header http.Header
		holds  string
	}{
		{http.Header{"Stripe_account": {"x"}}, `"stripe-account" in request.headers`},
		{http.Header{"Stripe_account": {"x"}}, `has(request.headers.stripe_account) && request.headers["stripe-account"] == "x"`},
		{http.Header{"STRIPE-account": {"x"}}, `request.headers["stripe-account"] == "x" && size(request.headers) == 1`},
		{http.Header{"Stripe-Account": {"a", "b"}, "Stripe_Account": {"c"}}, `request.headers["stripe-account"] == "a, b, c"`},
		{http.Header{"Stripe-Account": {"a"}, "Stripe_Account": {"c"}}, `request.headers["stripe_account"] == "a, c"`},
		{http.Header{"X-A_b": {"1"}, "X_a-B": {"2"}, "X-A-B": {"0"}}, `request.headers["x-a-b"] == "0, 1, 2"`},
		{http.Header{"X-A": {"0"}, "x-a": {"1"}}, `request.headers["x-a"] == "0, 1"`},
		{http.Header{"X-A": {""}, "Accept": {"b"}}, `request.headers == {"x-a": "", "accept": "b"}`},
	} {
		q := question(nil)
		q.Request.Raw.Header = c.header
		if holds, err := compile(t, c.holds, nil).Holds(q); err != nil || !holds {
			t.Errorf("%v: %s: %t %v", c.header, c.holds, holds, err)
		}
	}
}

// The body is asked for by whoever looks at what it may hold, and by nobody else.
func TestOnlyConditionsThatLookAtTheBodyNeedIt(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Params: []runtime.Param{
		{Name: "path", Type: runtime.TypeString, In: runtime.InPath},
		{Name: "body", Type: runtime.TypeString, In: runtime.InBody, Body: true},
		{Name: "both", Type: runtime.TypeString, In: runtime.InQuery, Body: true},
	}}
	for text, want := range map[string]bool{
		`args.path == "x"`: false, `args.body == "x"`: true, `args.both == "x"`: true, `args.?body.orValue("") == "x"`: true,
		`has(args.body)`: true, `request.body.x == 1 && request.path == "/"`: true, `request.path == "/" && request.body.x == 1`: true,
		`request.body.x == 1`: true, `request.path == "/"`: false, `has(request.body)`: true,
		`principal.id == "x"`: false, `request.?body.?x.orValue(1) == 1`: true, `"args.body" == "x"`: false,
	} {
		for _, schema := range []*runtime.Action{nil, action} {
			q := question(nil)
			q.Action = action
			q.Request.Raw.Body = strings.NewReader("x")
			c := compile(t, text, schema)
			if c.NeedsBody(q) != want {
				t.Errorf("%s (schema %t): %t", text, schema != nil, !want)
			}
			q.Request.Parsed = true
			if c.NeedsBody(q) {
				t.Errorf("%s: asks for a body that was read", text)
			}
		}
	}
	for _, text := range []string{`size(args) > 1`, `args["bo" + "dy"] == 1`, `args.exists(k, k == "body")`, `dyn(args) == dyn(1)`, `args[?"bo" + "dy"].hasValue()`} {
		q := question(nil)
		q.Action, q.Request.Raw.Body = action, strings.NewReader("x")
		if !compile(t, text, nil).NeedsBody(q) {
			t.Errorf("%s does not ask for the body", text)
		}
	}
}

func TestConditionsAreSafeForConcurrentUse(t *testing.T) {
	c := compile(t, `args.l.exists(x, x == principal.agent) && now.getHours("Europe/Berlin") == 13`, nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if holds, err := c.Holds(question(runtime.Args{"l": []any{"a", "claude"}})); err != nil || !holds {
					t.Error(holds, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// FuzzCompile: any text is a condition or has problems with a place in it, and
// what is a condition answers.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{"true", "args.x == 1", "now.getHours('UTC') < 8", "principal.", "1", "[1].map(x, x)", "\x00", "a.?b", "'\\u00e9'.matches('(')", "args.all(k, v, k == v)"} {
		f.Add(seed)
	}
	compiler, err := condition.NewCompiler()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, problems := compiler.Compile(text, nil)
		if (c == nil) != (len(problems) > 0) {
			t.Fatalf("%v %+v", c, problems)
		}
		for _, p := range problems {
			if p.Msg == "" || p.Offset < 0 || p.Offset > len([]rune(text))+1 {
				t.Fatalf("%+v", p)
			}
		}
		if c != nil {
			_, _ = c.Holds(question(runtime.Args{"x": "hunter2-in-the-request"}))
		}
	})
}

func BenchmarkHolds(b *testing.B) {
	c := compile(b, `args.owner == "acme" && principal.tenant == "default"`, nil)
	q := question(runtime.Args{"owner": "acme"})
	b.ReportAllocs()
	for b.Loop() {
		if holds, err := c.Holds(q); err != nil || !holds {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile(b, `args.owner == "acme" && principal.tenant == "default"`, nil)
	}
}

// An argument that may be null is there when it is null: a rule that guards a field
// guards its clearing too. It can be compared with null and with values.
func TestNullIsThereForConditions(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Service: "a", Risk: runtime.RiskLow, Params: []runtime.Param{
		{Name: "who", Type: runtime.TypeString, Nullable: true}, {Name: "size", Type: runtime.TypeInteger, Nullable: true},
		{Name: "list", Type: runtime.TypeArray, Nullable: true}, {Name: "plain", Type: runtime.TypeString},
	}}
	all := runtime.Args{"who": nil, "size": nil, "list": nil, "plain": nil}
	given := runtime.Args{"who": "ann", "size": json.Number("3"), "list": []any{"x"}}
	for text, want := range map[string][2]bool{ // when null, when given
		`has(args.who) && has(args.size) && has(args.list)`:             {true, true},
		`args.who == null && args.size == null && args.list == null`:    {true, false},
		`args.who == "ann" || args.size == 3`:                           {false, true},
		`has(args.plain)`:                                               {false, false},
		`args.who != null && args.who.startsWith("a") && args.size > 2`: {false, true},
		`args.list != null && args.list.exists(e, e == "x")`:            {false, true},
		`has(args.who) && !(args.who in ["ben", "eve"]) && 1 in [1, 2]`: {true, true},
	} {
		c := compile(t, text, action)
		for i, args := range []runtime.Args{all, given} {
			q := question(args)
			q.Action = action
			if holds, err := c.Holds(q); err != nil || holds != want[i] {
				t.Errorf("%s with %v: %v %v", text, args, holds, err)
			}
		}
	}
	q := question(all)
	q.Action = action
	if holds, err := compile(t, `args.size > 2`, action).Holds(q); err == nil || holds {
		t.Errorf("null is compared as a number: %v %v", holds, err)
	}
}
