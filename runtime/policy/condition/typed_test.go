package condition_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// "50" is 50 to many servers, 1 is true, and an object with numbers for keys is a list. A rule
// that looks for the one is not passed by the other.
func TestAValueOfAnotherTypeCannotBeJudged(t *testing.T) {
	for when, bodies := range map[string]struct{ mistaken, plain []string }{
		`request.body.x == 50`: {
			[]string{`"50"`, `" 50"`, `"050"`, `"50.0"`, `"+50"`, `"0x32"`, `"5e1"`, `"50abc"`, `"50,00"`, `"５０"`, `[50]`},
			[]string{`50`, `51`, `"51"`, `"501"`, `"500abc"`, `"fifty"`, `""`, `"a50"`, `null`, `true`, `false`, `{}`, `{"a":1}`},
		},
		`request.body.x != 50`:                     {[]string{`"50"`}, []string{`50`, `"51"`}},
		`request.body.x == 0.5`:                    {[]string{`"0.5"`, `".50"`}, []string{`0.5`, `"5"`}},
		`request.body.x == -1`:                     {[]string{`"-1"`, `"-1.0"`}, []string{`-1`, `"1"`, `1`}},
		`request.body.x in [40, 50]`:               {[]string{`"40"`, `"50"`}, []string{`40`, `"45"`}},
		`request.body.x in [1, "one"]`:             {[]string{`"1"`, `true`, `"one "`}, []string{`1`, `"one"`, `"two"`, `false`}},
		`request.body.x == "50"`:                   {[]string{`50`, `50.0`, `5e1`}, []string{`"50"`, `51`, `"fifty"`, `true`}},
		`request.body.x == "true"`:                 {[]string{`true`}, []string{`"true"`, `false`, `1`, `"false"`}},
		`request.body.x in ["1", "t", "y", "yes"]`: {[]string{`true`}, []string{`false`}},
		`request.body.x == "t"`:                    {[]string{`true`}, []string{`false`}},
		`request.body.x == "y"`:                    {[]string{`true`}, []string{`false`}},
		`request.body.x == "yes"`:                  {[]string{`true`}, []string{`false`}},
		`request.body.x == "f"`:                    {[]string{`false`}, []string{`true`}},
		`request.body.x == "n"`:                    {[]string{`false`}, []string{`true`}},
		`request.body.x == "on"`:                   {[]string{`true`}, []string{`"on"`, `false`}},
		`request.body.x == ""`:                     {nil, []string{`""`, `false`, `0`, `"a"`, `null`}},
		`request.body.x == true`:                   {[]string{`"true"`, `"TRUE"`, `1`, `"1"`, `"yes"`, `2`, `"x"`}, []string{`true`, `false`, `0`, `"false"`, `"0"`, `"off"`, `""`, `null`}},
		`request.body.x == false`:                  {[]string{`"false"`, `0`, `""`, `"x"`}, []string{`false`, `true`, `1`, `"true"`, `"1"`, `null`}},
		`request.body.x`:                           {nil, []string{`true`, `false`}},
		`string(request.body.x) == "50"`:           {nil, []string{`50`, `"50"`}},
		`int(request.body.x) == 50`:                {nil, []string{`50`, `"50"`}},
		`"admin" in request.body.x`:                {[]string{`{"0":"admin"}`, `{"a":" admin"}`}, []string{`["admin"]`, `["user"]`, `{"0":"user"}`, `{"admin":1}`}},
		`request.body.x.exists(r, r == "admin")`:   {[]string{`{"0":"admin"}`}, []string{`["admin"]`, `["user"]`, `{"0":"user"}`}},
		`request.body.x.exists(r, r == 50)`:        {[]string{`["50"]`}, []string{`[50]`, `["51"]`}},
		`request.body.x.exists(r, r.level == 50)`:  {[]string{`[{"level":"50"}]`}, []string{`[{"level":50}]`, `[{"level":"1"}]`}},
		`args.o.x == 50`:                           {[]string{`"50"`}, []string{`50`, `"51"`}},
		`"admin" in request.body`:                  {nil, []string{`"admin"`}},
	} {
		c := compile(t, when, nil)
		ask := func(value string) error {
			decoder := json.NewDecoder(strings.NewReader(`{"x":` + value + `}`))
			decoder.UseNumber()
			var document any
			if err := decoder.Decode(&document); err != nil {
				t.Fatal(value, err)
			}
			q := question(map[string]any{"o": document})
			q.Request.Document, q.Request.Raw.Body, q.Request.Parsed = document, http.NoBody, true
			_, err := c.Holds(q)
			return err
		}
		refused := func(err error) bool {
			return err != nil && (strings.Contains(err.Error(), "another type") || strings.Contains(err.Error(), "blanks") || strings.Contains(err.Error(), "has a list"))
		}
		for _, value := range bodies.mistaken {
			if err := ask(value); !refused(err) {
				t.Errorf("%s with %s: %v", when, value, err)
			}
		}
		for _, value := range bodies.plain {
			if err := ask(value); refused(err) {
				t.Errorf("%s with %s: %v", when, value, err)
			}
		}
	}
}

// A field on two lines is one to the rule, and the first or the last of them to many servers.
func TestAFieldOnTwoLinesCannotBeJudged(t *testing.T) {
	for when, fields := range map[string]struct{ split, plain []http.Header }{
		`request.headers[?"x-env"].orValue("") == "production"`: {
			[]http.Header{{"X-Env": {"production", "x"}}, {"X-Env": {"x", "production"}}, {"X-Env": {"x"}, "X_env": {"production"}}},
			[]http.Header{{}, {"X-Env": {"production"}}, {"X-Env": {"x", "y"}}, {"X-Env": {"x"}, "Accept": {"production", "a"}}},
		},
		`has(request.headers.accept) && request.headers.accept.contains("json")`: {nil, []http.Header{{"Accept": {"json", "xml"}}}},
	} {
		c := compile(t, when, nil)
		ask := func(header http.Header) error {
			q := question(nil)
			q.Request.Raw.Header = header
			_, err := c.Holds(q)
			return err
		}
		for _, header := range fields.split {
			if err := ask(header); err == nil || !strings.Contains(err.Error(), "several lines") {
				t.Errorf("%s with %v: %v", when, header, err)
			}
		}
		for _, header := range fields.plain {
			if err := ask(header); err != nil {
				t.Errorf("%s with %v: %v", when, header, err)
			}
		}
	}
}

// What stands in a list of a field is the field's value to whoever reads its elements, on
// however many lines they come: one line with two is the same to RFC 9110 as two with one.
func TestAnElementOfAFieldIsNotPassedOver(t *testing.T) {
	const when = `request.headers[?"x-env"].orValue("") == "production"`
	for when, fields := range map[string]struct{ split, plain []http.Header }{
		when: {
			[]http.Header{
				{"X-Env": {"production, x", "y"}}, {"X-Env": {"y", "x ,\tproduction"}}, {"X-Env": {"x"}, "X_env": {"y,production"}},
				{"X-Env": {"production, x"}}, {"X-Env": {"x,production"}}, {"X-Env": {"production,"}}, {"X-Env": {`"a, production, b"`}},
			},
			[]http.Header{{"X-Env": {"x-production, y"}}, {"X-Env": {"a production, y", "z"}}, {"X-Env": {"x"}, "Accept": {"production, a", "b"}}},
		},
		`request.headers["x-env"] in ["production", "production, x"]`: {
			[]http.Header{{"X-Env": {"x, production"}}, {"X-Env": {"production, x, y"}}},
			[]http.Header{{"X-Env": {"production, x"}}, {"X-Env": {"production"}}, {"X-Env": {"x, y"}}},
		},
		// Where a comma parts nothing, a rule compares the whole or no element.
		`request.headers["if-unmodified-since"] == "Mon, 30 Nov 2026 10:00:00 GMT"`: {
			nil, []http.Header{{"If-Unmodified-Since": {"Mon, 30 Nov 2026 10:00:00 GMT"}}, {"If-Unmodified-Since": {"Mon, 30 Nov 2026 11:00:00 GMT"}}},
		},
		`request.headers["user-agent"] == "curl/8"`: {nil, []http.Header{{"User-Agent": {"Mozilla/5.0 (KHTML, like Gecko)"}}}},
		`request.headers["x-env"].contains("production") || request.headers["x-env"].matches("(^|,) *staging *(,|$)")`: {
			nil, []http.Header{{"X-Env": {"production, x"}}, {"X-Env": {"staging, x", "y"}}},
		},
	} {
		c := compile(t, when, nil)
		for _, header := range fields.split {
			q := question(nil)
			q.Request.Raw.Header = header
			if _, err := c.Holds(q); err == nil || !strings.Contains(err.Error(), "servers may read the one that the rule compares") {
				t.Errorf("%s with %v: %v", when, header, err)
			}
		}
		for _, header := range fields.plain {
			q := question(nil)
			q.Request.Raw.Header = header
			if _, err := c.Holds(q); err != nil {
				t.Errorf("%s with %v: %v", when, header, err)
			}
		}
	}
}

// An argument that is a field of the head is one to servers like any other field.
func TestAnElementOfAFieldThatIsAnArgumentIsNotPassedOver(t *testing.T) {
	c := compile(t, `args.env == "production"`, nil)
	for value, c2 := range map[string]struct {
		in      runtime.Place
		unclear bool
	}{
		"production, x": {runtime.InHeader, true}, "x,production": {runtime.InHeader, true}, "production": {runtime.InHeader, false},
		"x, y": {runtime.InHeader, false}, " production,x": {runtime.InQuery, false}, "production,x ": {runtime.InPath, false},
	} {
		q := question(runtime.Args{"env": value})
		q.Action.Params = []runtime.Param{{Name: "env", Type: runtime.TypeString, In: c2.in}}
		if _, err := c.Holds(q); (err != nil) != c2.unclear || err != nil && !strings.Contains(err.Error(), "args.env") {
			t.Errorf("%q in the %s: %v", value, c2.in, err)
		}
	}
}
