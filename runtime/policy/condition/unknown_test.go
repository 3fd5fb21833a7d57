package condition_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// What nobody can tell of a request is an error, which denies. Were it taken for absent,
// empty or false, a rule that denies would pass over it.
func TestWhatNobodyKnowsIsAnError(t *testing.T) {
	numbers := func(text string) *runtime.Question {
		q := question(nil)
		q.Request.Document, q.Request.Parsed = json.Number(text), true
		return q
	}
	args := func(value any) *runtime.Question { return question(runtime.Args{"x": value}) }
	tunnel, nowhere, unread, portless := question(nil), question(nil), question(nil), question(nil)
	tunnel.Request.Target = runtime.Target{Scheme: "tcp", Authority: "api.example.com:443"}
	nowhere.Request.Target.Path = ""
	unread.Request.Raw.Body = strings.NewReader("x")
	portless.Request.Target.Scheme, portless.Request.Target.Authority = "ssh", "api.example.com"
	for _, c := range []struct {
		when string
		q    *runtime.Question
		kind runtime.ParamType // of args.x; none: of no schema
		want string
	}{
		{"args.x", args("true"), "", "it is neither true nor false"},
		{"args.x", args(json.Number("1")), "", "it is neither true nor false"},
		{`args.?y.orValue("no")`, args(true), "", "it is neither true nor false"},
		{`request.path.startsWith("/admin")`, tunnel, "", "request.path is not known of a tunnel"},
		{`"x" in request.query`, tunnel, "", "request.query is not known of a tunnel"},
		{`"x" in request.headers`, tunnel, "", "request.headers is not known of a tunnel"},
		{`has(request.body.x)`, tunnel, "", "request.body is not known of a tunnel"},
		{`request.path == "/admin"`, nowhere, "", "request.path is not known"},
		{`"x" in request.query`, nowhere, "", "request.query is not known"},
		{`has(request.body.x)`, unread, "", "request.body was not read"},
		{"request.port == 22", portless, "", "request.port is not there"},
		{"request.body == 1", numbers("9223372036854775808"), "", "a number is too large to be compared exactly"},
		{"request.body < 1.0", numbers("-1e999"), "", "a number is too large to be compared exactly"},
		{"dyn(request) == dyn(request)", question(nil), "", "a variable is used as a whole; use its fields"},
		{"size(args) > 5", args(condition.Hidden{}), "", "the record does not hold a value that it looks at"},
		{`args.x == "1"`, args(json.Number("1")), runtime.TypeString, "args.x is not of type string"},
		{`args.x.startsWith("1")`, args([]any{"1"}), runtime.TypeString, "args.x is not of type string"},
		{"args.x", args("true"), runtime.TypeBoolean, "args.x is not of type boolean"},
		{`"x" in args.x`, args(map[string]any{"x": "x"}), runtime.TypeArray, "args.x is not of type array"},
		{`has(args.x.y)`, args([]any{"y"}), runtime.TypeObject, "args.x is not of type object"},
		{`args.x == "1"`, args(struct{}{}), runtime.TypeString, "a value of type struct {}"},
		{"args.x > 1", args(json.Number("99999999999999999999")), runtime.TypeInteger, "a number is too large to be compared exactly"},
		{"args.x > 1", args(json.Number("1.5")), runtime.TypeInteger, "a number that is no integer"},
		{"args.x > 1", args(json.Number("9007199254740992.0")), runtime.TypeInteger, "a number that is no integer"},
		{"args.x < 1.0", args(json.Number("-9007199254740993")), runtime.TypeNumber, "a number is too large to be compared exactly"},
	} {
		var action *runtime.Action
		if c.kind != "" {
			action = &runtime.Action{Ref: "a.b", Params: []runtime.Param{{Name: "x", Type: c.kind}}}
		}
		if holds, err := compile(t, c.when, action).Holds(c.q); err == nil || err.Error() != c.want {
			t.Errorf("%s: %t %v, want %s", c.when, holds, err, c.want)
		}
	}
	if !compile(t, "dyn(request) == dyn(request)", nil).NeedsBody(unread) {
		t.Error("the request as a whole has no body")
	}
}

// An integer may be written as servers read it too.
func TestAnIntegerIsOneHoweverItIsWritten(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Params: []runtime.Param{{Name: "x", Type: runtime.TypeInteger}}}
	for _, written := range []string{"1000", "1e3", "1000.0"} {
		if holds, err := compile(t, "args.x == 1000", action).Holds(question(runtime.Args{"x": json.Number(written)})); err != nil || !holds {
			t.Errorf("%s: %t %v", written, holds, err)
		}
	}
}

// An argument that may be null is still one that may be absent.
func TestAnAbsentArgumentIsNotNull(t *testing.T) {
	action := &runtime.Action{Ref: "a.b", Params: []runtime.Param{{Name: "x", Type: runtime.TypeString, Nullable: true}}}
	for _, c := range []struct {
		when        string
		args        runtime.Args
		want, fails bool
	}{
		{"has(args.x)", runtime.Args{}, false, false},
		{"has(args.x)", runtime.Args{"x": nil}, true, false},
		{"args.x == null", runtime.Args{"x": nil}, true, false},
		{"args.x == null", runtime.Args{"x": "a"}, false, false},
		{"args.x == null", runtime.Args{}, false, true},
	} {
		if holds, err := compile(t, c.when, action).Holds(question(c.args)); holds != c.want || (err != nil) != c.fails {
			t.Errorf("%s of %v: %t %v", c.when, c.args, holds, err)
		}
	}
}

// An offset is written in full; another reading of it would be another hour.
func TestOffsetsAreWrittenInFull(t *testing.T) {
	c, err := condition.NewCompiler()
	if err != nil {
		t.Fatal(err)
	}
	for zone, good := range map[string]bool{
		"+02:00": true, "-23:59": true, "+00:00": true, "+2:00": false, "+02:0": false, "+002:00": false, "+02:000": false, "+24:00": false,
		"+02:60": false, "+a2:00": false, "+02:b0": false, "+:": false, "--2:00": false, "+0200": false,
	} {
		if _, problems := c.Compile(`now.getHours("`+zone+`") == 1`, nil); (len(problems) == 0) != good {
			t.Errorf("%s: %+v", zone, problems)
		}
	}
}

// A time is taken apart in the zone that the condition names, counted as CEL counts: days of the
// month and of the year from 0, and dates from 1.
func TestATimeIsTakenApartInItsZone(t *testing.T) {
	q := question(nil)
	q.Now = time.Date(2026, 12, 31, 21, 50, 45, 123e6, time.UTC)
	for part, want := range map[string]string{
		"getFullYear": "2027", "getMonth": "0", "getDayOfYear": "0", "getDayOfMonth": "0", "getDate": "1", "getDayOfWeek": "5",
		"getHours": "3", "getMinutes": "35", "getSeconds": "45", "getMilliseconds": "123",
	} {
		if holds, err := compile(t, `now.`+part+`("+05:45") == `+want, nil).Holds(q); err != nil || !holds {
			t.Errorf("%s is not %s: %v", part, want, err)
		}
	}
}

// What a rule says of an action that may be repeated holds for those.
func TestAnActionIsIdempotentOrNot(t *testing.T) {
	c := compile(t, "action.idempotent", nil)
	for _, is := range []bool{true, false} {
		q := question(nil)
		q.Action.Idempotent = is
		if holds, err := c.Holds(q); err != nil || holds != is {
			t.Errorf("%t: %t %v", is, holds, err)
		}
	}
}
