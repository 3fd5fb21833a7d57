package services_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
)

const easy = `
name: easy
version: 1.0.0
base_url: https://api.easy.test
actions:
  put:
    description: Members of one object, and of one in it
    method: PUT
    path: /x
    args: [{name: kind}, {name: city}]
    request: {body: {kind: "{kind}", address: {city: "{city}"}}}
  within:
    description: Members whose names are alike
    method: DELETE
    path: /x
    args: [{name: date}, {name: from}]
    request: {body: {filter: {date: "{date}", "date[from]": "{from}"}}}
  first:
    description: The first of a list
    method: PATCH
    path: /x
    args: [{name: kind}]
    request: {body: [{kind: "{kind}"}]}
`

// What a document has where its service has no argument, and some server reads as one, is no
// argument that is not there: a rule that denies for its value would let it pass.
func TestAnArgumentInAnotherPlaceOfADocumentIsAstray(t *testing.T) {
	t.Parallel()
	table := set(t, easy).Table()
	for _, c := range []struct {
		method, body string
		astray       []string
	}{
		{"PUT", `{"kind": "a", "address": {"city": "b"}}`, nil},
		{"PUT", `{"kindred": 1, "address": {"cities": 1}, "other": [{"kind": 1}]}`, nil},
		{"PUT", `{}`, nil},
		{"PUT", ``, nil},
		{"PUT", `[]`, nil},
		{"PUT", `["kind", 1, null]`, nil},
		{"PUT", `[{"kind": "a"}]`, []string{"kind"}},
		{"PUT", `[1, [{"address": {}, "Kind": "a"}]]`, []string{"city", "kind"}},
		{"PUT", `{"kind": "a", "address": [{"city": "b"}]}`, []string{"city"}},
		{"PUT", `{"[kind]": "a"}`, []string{"kind"}},
		{"PUT", `{"kind[]": "a"}`, []string{"kind"}},
		{"PUT", `{" kind": "a"}`, []string{"kind"}},
		{"PUT", `{"kind\u0000": "a"}`, []string{"kind"}},
		{"PUT", `{"kınd": "a"}`, []string{"kind"}},
		{"PUT", `{"KİND": "a"}`, []string{"kind"}},
		{"PUT", `{"address": {"cıty": "b"}}`, []string{"city"}},
		{"DELETE", `{"filter": {"date": "a", "date[from]": "b"}}`, nil},
		{"DELETE", `{"filter": {"date[to]": "b"}}`, []string{"date"}},
		{"DELETE", `{"filter[]": 1}`, []string{"date", "from"}},
		{"PATCH", `[{"kind": "a"}]`, nil},
		{"PATCH", `[{"kind[]": "a"}]`, []string{"kind"}},
	} {
		body, err := classifier.ParseBody("application/json", "", []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		m, err := table.Match(classifier.Input{Scheme: "https", Authority: "api.easy.test:443", Method: c.method, Target: "/x", Body: body})
		if err != nil || !slices.Equal(m.Astray, c.astray) {
			t.Errorf("%s %s: %q %v", c.method, c.body, m.Astray, err)
		}
	}
	body, err := classifier.ParseBody("application/x-www-form-urlencoded", "", []byte("k%C4%B1nd=a"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := table.Match(classifier.Input{Scheme: "https", Authority: "api.easy.test:443", Method: "PUT", Target: "/x", Body: body})
	if err != nil || !slices.Equal(m.Astray, []string{"kind"}) {
		t.Errorf("in a form: %q %v", m.Astray, err)
	}
}

// A document of very many names costs little to look through, however many arguments the action has.
func TestADocumentOfVeryManyNamesCostsLittle(t *testing.T) {
	var file strings.Builder
	file.WriteString("name: many\nversion: 1.0.0\nbase_url: https://api.many.test\nactions:\n  put:\n    description: x\n    method: PUT\n    path: /x\n    args:\n")
	for i := range 200 {
		fmt.Fprintf(&file, "      - {name: k%d}\n", i)
	}
	table := set(t, file.String()).Table()
	for name, c := range map[string]struct{ begin, one, end string }{
		"a list":      {"[", `{"é":0}`, "]"},
		"plain":       {"[", `{"k":0}`, "]"},
		"empty":       {"[", `{}`, "]"},
		"odd names":   {"{", `"[é%d":0`, "}"},
		"plain names": {"{", `"k_%d":0`, "}"},
	} {
		var text strings.Builder
		text.WriteString(c.begin)
		for i := 0; text.Len() < 900<<10; i++ {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(strings.Replace(c.one, "%d", strconv.Itoa(i), 1))
		}
		text.WriteString(c.end)
		body, err := classifier.ParseBody("application/json", "", []byte(text.String()))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		m, err := table.Match(classifier.Input{Scheme: "https", Authority: "api.many.test:443", Method: "PUT", Target: "/x", Body: body})
		if took := time.Since(start); err != nil || took > 5*time.Second {
			t.Errorf("%s: %v after %v", name, err, took)
		}
		t.Logf("%s: %d astray, %v", name, len(m.Astray), time.Since(start)) // the slower of two machines: 0.3 s
	}
}
