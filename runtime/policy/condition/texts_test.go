package condition_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/policy/condition"
)

// holdsOf asks a condition about a body.
func holdsOf(t *testing.T, c *condition.Condition, body string) (bool, error) {
	t.Helper()
	q := question(nil)
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&q.Request.Document); err != nil {
		t.Fatal(body, err)
	}
	q.Request.Raw.Body, q.Request.Parsed = http.NoBody, true
	q.Args = q.Request.Document.(map[string]any)
	return c.Holds(q)
}

// judged holds a condition against bodies that it is true of, false of, and cannot judge.
func judged(t *testing.T, when string, isTrue, isFalse, unclear []string) {
	t.Helper()
	c := compile(t, when, nil)
	for _, body := range isTrue {
		if holds, err := holdsOf(t, c, body); !holds || err != nil {
			t.Errorf("%s: %s: %t %v, want true", when, body, holds, err)
		}
	}
	for _, body := range isFalse {
		if holds, err := holdsOf(t, c, body); holds || err != nil {
			t.Errorf("%s: %s: %t %v, want false", when, body, holds, err)
		}
	}
	for _, body := range unclear {
		if holds, err := holdsOf(t, c, body); err == nil {
			t.Errorf("%s: %s: %t, want that it cannot be judged", when, body, holds)
		}
	}
}

// What a text begins with, ends with, contains and matches is the same without the blanks around it,
// or nobody can say: some servers drop them.
func TestTextsAreLookedIntoWithoutTheirBlanks(t *testing.T) {
	for when, c := range map[string]struct{ isTrue, isFalse, unclear []string }{
		`args.x.startsWith("prod")`:            {[]string{`{"x":"prod"}`, `{"x":"production "}`}, []string{`{"x":"dev"}`, `{"x":" dev"}`}, []string{`{"x":" prod"}`, `{"x":"\ufeffprod"}`, `{"x":"\u180eprod"}`, `{"x":"\u0001prod"}`}},
		`args.x.endsWith("@x")`:                {[]string{`{"x":"a@x"}`, `{"x":" a@x"}`}, []string{`{"x":"a@y "}`}, []string{`{"x":"a@x "}`, `{"x":"a@x\n"}`, `{"x":"a@x\ufeff"}`}},
		`args.x.contains("a b")`:               {[]string{`{"x":" a b "}`}, []string{`{"x":" ab "}`}, nil},
		`args.x.matches("(?i)^skunk$")`:        {[]string{`{"x":"Skunk"}`}, []string{`{"x":"a Skunk"}`, `{"x":" "}`}, []string{`{"x":"skunk "}`, `{"x":"\nSKUNK"}`}},
		`matches(args.x, "^skunk$")`:           {[]string{`{"x":"skunk"}`}, []string{`{"x":"skunks"}`}, []string{`{"x":"skunk "}`}},
		`args.x.matches("^" + args.y + "$")`:   {[]string{`{"x":"a","y":"a"}`}, []string{`{"x":"a","y":"b"}`}, []string{`{"x":"a ","y":"a"}`, `{"x":"a","y":"("}`}},
		`args.to.exists(a, a.endsWith("@x"))`:  {[]string{`{"to":["y","a@x"]}`}, []string{`{"to":["a@y"]}`, `{"to":[]}`}, []string{`{"to":["a@x "]}`}},
		`args.x.lowerAscii() == "skunk"`:       {[]string{`{"x":"Skunk"}`, `{"x":"skunk"}`}, []string{`{"x":"skunks"}`, `{"x":" dog"}`}, []string{`{"x":"SKUNK "}`, `{"x":"\ufeffskunk"}`, `{"x":["Skunk"]}`, `{"x":5}`}},
		`args.x.lowerAscii() in ["a", "b"]`:    {[]string{`{"x":"B"}`}, []string{`{"x":"C "}`}, []string{`{"x":"B "}`}},
		`args.x.lowerAscii().startsWith("sk")`: {[]string{`{"x":"SKUNK"}`}, []string{`{"x":"dog"}`}, []string{`{"x":" SKUNK"}`}},
	} {
		judged(t, when, c.isTrue, c.isFalse, c.unclear)
	}
}

// A field of the head is a list to many servers, in whatever case the rule compares it.
func TestAnElementOfAFieldIsComparedInLowerCase(t *testing.T) {
	c := compile(t, `request.headers[?"x-env"].orValue("").lowerAscii() == "prod"`, nil)
	for field, want := range map[string]string{"PROD": "true", "dev": "false", "dev, PROD": "unclear"} {
		q := question(nil)
		q.Request.Raw.Header.Set("X-Env", field)
		holds, err := c.Holds(q)
		if got := map[bool]string{true: "true", false: "false"}[holds]; err != nil && want != "unclear" || err == nil && got != want {
			t.Errorf("%s: %t %v, want %s", field, holds, err, want)
		}
	}
}

// A list or an object in a list is what stands in it to some servers.
func TestWhatStandsInAnElementCannotBeJudged(t *testing.T) {
	nested := []string{`{"to":[["evil"]]}`, `{"to":["a",{"0":"evil"}]}`, `{"to":[[["evil "]]]}`, `{"to":[{"a":{"b":"evil"}}]}`}
	for _, when := range []string{`args.to.exists(a, a == "evil")`, `"evil" in args.to`, `args.to[0] == "evil" || args.to[1] == "evil"`, `["evil", "b"].exists(e, e in args.to)`} {
		judged(t, when, []string{`{"to":["evil","x"]}`}, []string{`{"to":["a","x"]}`, `{"to":[["a"],{"b":"c"}]}`}, nested)
	}
	judged(t, `args.to.exists(a, a == 5)`, []string{`{"to":[5]}`}, []string{`{"to":[[6]]}`}, []string{`{"to":[[5]]}`, `{"to":[{"a":"05"}]}`, `{"to":["5"]}`})
	judged(t, `args.items.exists(i, i.kind == "a")`, []string{`{"items":[{"kind":"a","x":["a"]}]}`}, []string{`{"items":[{"kind":"b","x":["a"]}]}`}, []string{`{"items":[{"kind":["a"]}]}`})
	judged(t, `args.meta.exists(k, args.meta[k] == 5)`, []string{`{"meta":{"a":5}}`}, []string{`{"meta":{"a":6,"b":"x"}}`}, []string{`{"meta":{"a":"5"}}`, `{"meta":{"a":"05"}}`, `{"meta":{"a":[5]}}`})
}

// What a rule compares with may stand in a loop, a choice or the keys of a map.
func TestLiteralsThatAreComparedByName(t *testing.T) {
	for _, when := range []string{
		`["prod", "live"].exists(p, p == args.x)`, `["prod"].exists(p, ["a"].exists(q, p == args.x))`, `(["prod"] + ["live"]).exists(p, args.x == p)`,
		`args.x == (principal.agent == "" ? "dev" : "prod")`, `args.x in {"prod": true}`, `{"prod": true}[?args.x].orValue(false)`,
		`["prod", "live"].filter(p, p != "live").exists(p, p == args.x)`,
	} {
		judged(t, when, []string{`{"x":"prod"}`}, []string{`{"x":"test"}`, `{"x":" test"}`}, []string{`{"x":"prod "}`, `{"x":" prod"}`, `{"x":"prod\ufeff"}`})
	}
}
