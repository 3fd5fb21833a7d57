package trial_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/internal/trial"
)

const shopFile = `
name: shop
version: 1.0.0
base_url: https://api.shop.example
auth: {type: bearer, credential_ref: shop.token}
actions:
  list-orders: {description: List, method: GET, path: /orders, response: {filter: "map(.item)"}}
  get-order: {description: Read one, method: GET, path: "/orders/{id}"}
  add-order: {description: Add, method: POST, path: /orders, args: [{name: item, required: true}]}
`

// A service file is tried against an upstream, what it answers is recorded, and
// the recording does for the upstream from then on.
func TestServiceFilesAreTriedAgainstAnUpstreamAndItsRecording(t *testing.T) {
	var writes, keys atomic.Int32
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			keys.Add(1)
		}
		switch {
		case r.Method == http.MethodPost:
			writes.Add(1)
			w.WriteHeader(http.StatusCreated)
		case r.URL.Path == "/base/orders":
			fmt.Fprint(w, `[{"item": "rice"}]`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintln(w, `"no such order"`)
		}
	}))
	defer upstream.Close()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(shopFile), 0o600); err != nil {
		t.Fatal(err)
	}
	outcomes := func(o trial.Options) string {
		t.Helper()
		o.File = file
		list, err := trial.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, one := range list {
			out = append(out, strings.TrimSpace(one.Action+" "+one.Outcome+" "+one.Why))
		}
		return strings.Join(out, "; ")
	}
	got := outcomes(trial.Options{Upstream: upstream.URL + "/base/", Record: true})
	if want := `list-orders ok; get-order failed the answer is 404: "no such order"; add-order untried it is of medium risk: send it with --writes`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := outcomes(trial.Options{Upstream: upstream.URL + "/base", Writes: true}); !strings.Contains(got, "add-order ok") || writes.Load() != 1 {
		t.Errorf("%s; %d writes", got, writes.Load())
	}
	upstream.Close()
	if got, want := outcomes(trial.Options{}), "list-orders ok; get-order ok; add-order ok"; got != want {
		t.Errorf("with the recording: %s", got)
	}
	if got := outcomes(trial.Options{Upstream: upstream.URL}); !strings.Contains(got, "list-orders failed the upstream does not answer") {
		t.Errorf("without an upstream: %s", got)
	}
	changed := strings.Replace(shopFile, "map(.item)", "map(.name)", 1)
	if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := outcomes(trial.Options{}); !strings.Contains(got, `list-orders failed the result is [null], and the case says ["rice"]`) {
		t.Errorf("a filter that changed: %s", got)
	}
	if keys.Load() > 0 {
		t.Error("a credential was sent")
	}
}

// What somebody wrote as a case stays when others are recorded, and the file stays as it
// is when nothing could be.
func TestRecordingKeepsTheCasesThatItDoesNotRecord(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/orders" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, `[{"item": "soup"}]`)
	}))
	defer upstream.Close()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	cases := trial.CasesOf(file)
	const written = `cases:
  - {action: add-order, args: {item: rice}, request: POST /orders}
  - {action: get-order, args: {id: lost}, request: GET /orders/lost, answer: {id: lost}}
  - {action: list-orders, answer: [{item: rice}], result: [rice]}
`
	for name, text := range map[string]string{file: shopFile, cases: written} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record := func() string {
		t.Helper()
		if _, err := trial.Run(t.Context(), trial.Options{File: file, Upstream: upstream.URL, Record: true}); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(cases)
		if err != nil {
			t.Fatal(err)
		}
		return string(now)
	}
	now := record()
	for _, want := range []string{"POST /orders", "item: rice", "GET /orders/lost", "item: soup"} {
		if strings.Count(now, want) != 1 {
			t.Errorf("%q stands there %d times:\n%s", want, strings.Count(now, want), now)
		}
	}
	upstream.Close()
	if again := record(); again != now {
		t.Errorf("without an upstream the cases became\n%s", again)
	}
}

// A recorded case holds what was sent: another body is a failure from then on.
func TestABodyIsRecorded(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id": 1}`) }))
	defer upstream.Close()
	file := filepath.Join(t.TempDir(), "shop.yaml")
	text := shopFile + `  form-order: {description: Add, method: POST, path: /forms, args: [{name: item, required: true}], request: {body_type: form}}
  raw-order: {description: Add, method: POST, path: /raw, args: [{name: item, required: true}], request: {body: "{item}", body_type: raw}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(o trial.Options) map[string]string {
		t.Helper()
		o.File = file
		list, err := trial.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, one := range list {
			out[one.Action] = strings.TrimSpace(one.Outcome + " " + one.Why)
		}
		return out
	}
	run(trial.Options{Upstream: upstream.URL, Record: true, Writes: true})
	for action, got := range run(trial.Options{}) {
		if got != "ok" && action != "list-orders" {
			t.Errorf("with the recording %s: %s", action, got)
		}
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.ReplaceAll(text, "name: item", "name: thing"), "{item}", "{thing}")), 0o600); err != nil {
		t.Fatal(err)
	}
	cases, err := os.ReadFile(trial.CasesOf(file))
	if err == nil {
		err = os.WriteFile(trial.CasesOf(file), []byte(strings.ReplaceAll(string(cases), "args:\n      item:", "args:\n      thing:")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := run(trial.Options{})
	for _, action := range []string{"add-order", "form-order"} {
		if !strings.Contains(got[action], "sends the body ") {
			t.Errorf("%s with another body: %s\n%s", action, got[action], cases)
		}
	}
	if got["raw-order"] != "ok" {
		t.Errorf("raw-order: %s", got["raw-order"])
	}
}

// What is wrong with a file of cases is said in the words of the file.
func TestAFileOfCasesWithWrongTypes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.yaml")
	for text, want := range map[string]string{
		"cases: {}\n":                     "cases cannot be of type object",
		"cases: [{action: 1}]\n":          "cannot be of type number",
		"[]\n":                            "the file cannot be of type array",
		"cases: [{action: a, nosuch: 1}]": "unknown field \"nosuch\"",
	} {
		for name, text := range map[string]string{file: shopFile, trial.CasesOf(file): text} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := trial.Run(t.Context(), trial.Options{File: file}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// answering runs the cases of a shop whose upstream gives what a path says: /status/body, and
// returns what became of them and what the file of cases is then.
func answering(t *testing.T, cases string, o trial.Options) (string, string) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, body, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		code, _ := strconv.Atoi(status)
		w.WriteHeader(code)
		if body == "huge" {
			body = `"` + strings.Repeat("x", 4<<20) + `"`
		}
		fmt.Fprint(w, body)
	}))
	defer upstream.Close()
	if o.File = filepath.Join(t.TempDir(), "any.yaml"); o.Upstream != "" {
		o.Upstream = upstream.URL
	}
	for name, text := range map[string]string{
		o.File:                "name: any\nversion: 1.0.0\nbase_url: https://x.test\nauth: {type: none}\nactions:\n  get: {description: Get, method: GET, path: \"/{status}/{body}\", response: {filter: .}}\n",
		trial.CasesOf(o.File): "cases:\n  - " + cases + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(trial.CasesOf(o.File))
	if err != nil {
		t.Fatal(err)
	}
	list, err := trial.Run(t.Context(), o)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	now, err := os.ReadFile(trial.CasesOf(o.File))
	if err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(trial.CasesOf(o.File)); err != nil || after.Mode() != before.Mode() {
		t.Errorf("the cases had the mode %s, and now %v, %v", before.Mode(), after, err)
	}
	return strings.TrimSpace(list[0].Outcome + " " + list[0].Why), string(now)
}

// A case is held against the result that it says, also where nothing is answered.
func TestACaseIsHeldAgainstItsResult(t *testing.T) {
	const asked = "up"
	for _, c := range []struct{ cases, upstream, want string }{
		{`{action: get, args: {status: "200", body: a}, result: [rice]}`, "", "untried it has a result and no answer: try it with --upstream"},
		{`{action: get, args: {status: "204", body: "-"}, result: [rice]}`, asked, "failed the answer is empty, and the case says [\"rice\"]"},
		{`{action: get, args: {status: "200", body: "[1]"}, result: [1]}`, asked, "ok"},
		{`{action: get, args: {status: "500", body: "[1]"}}`, asked, "failed the answer is 500: [1]"},
		{`{action: get, args: {status: "201", body: "[1]"}, status: 200}`, asked, "ok"},
		{`{action: get, args: {status: "200", body: huge}}`, asked, "failed the answer is over 4 MiB"},
	} {
		if got, _ := answering(t, c.cases, trial.Options{Upstream: c.upstream}); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.upstream, c.cases, got, c.want)
		}
	}
}

// What the upstream answered is recorded also where it has no body.
func TestAnEmptyAnswerIsRecorded(t *testing.T) {
	got, now := answering(t, `{action: get, args: {status: "204", body: "-"}}`, trial.Options{Upstream: "up", Record: true})
	if got != "ok" || !strings.Contains(now, "request: GET /204/-\n") || !strings.Contains(now, "status: 204\n") || strings.Contains(now, "result") || strings.Contains(now, "answer") {
		t.Errorf("%s\n%s", got, now)
	}
}

// A request that no action covers is said to be one: what is sent is no document that adds.
func TestARequestThatNoActionCoversIsSaidToBeOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bare.yaml")
	if err := os.WriteFile(file, []byte(bareFile), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := trial.Run(t.Context(), trial.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Why != "its request is recognised as none of the service's actions" {
		t.Errorf("%+v", list)
	}
}

// What starts a program is not tried, and said to be so: "0 failed" of nothing is no word.
func TestActionsThatStartProgramsAreSaidToBeUntried(t *testing.T) {
	file := filepath.Join(t.TempDir(), "greet.yaml")
	if err := os.WriteFile(file, []byte(greetFile), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := trial.Run(t.Context(), trial.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Outcome != "untried" || !strings.Contains(list[0].Why, "starts a program") {
		t.Errorf("%+v", list)
	}
}

// A field whose argument a case does not give is not there, but for what every request has
// there, which says no argument.
func TestACaseNeedNotSayWhatItsHeadNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "heads.yaml")
	if err := os.WriteFile(file, []byte(headsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer upstream.Close()
	list, err := trial.Run(t.Context(), trial.Options{File: file, Upstream: upstream.URL, Writes: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list {
		if one.Outcome != "ok" {
			t.Errorf("%+v", one)
		}
	}
	if len(list) != 2 {
		t.Errorf("%d cases", len(list))
	}
}

const headsFile = `name: heads
version: 1.0.0
description: Texts in its head
base_url: https://heads.example.com
actions:
  get:
    description: Read
    method: GET
    path: /x
    args: [{name: app}]
    request: {headers: {User-Agent: "{app} of us"}}
  put:
    description: Write
    method: PUT
    path: /x
    args: [{name: format}, {name: a, required: true}]
    request: {headers: {Content-Type: "application/{format}+json"}, body: {a: "{a}"}}
`

const greetFile = `name: greet
version: 1.0.0
description: Says hello
adapter: command
auth: {type: none}
command_spec: {executable: echo}
actions:
  hello: {description: Say it, command: hello, risk: {level: low}}
`

const bareFile = `name: bare
version: 1.0.0
base_url: https://api.shop.example
actions:
  add: {method: POST, path: /graphql, match: {graphql: {type: mutation}}, risk: {level: medium}}
`
