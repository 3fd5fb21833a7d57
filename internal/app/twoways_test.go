package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/app/apptest"
	"github.com/kimbap-run/kimbap/runtime"
)

const uploadService = `name: files
version: 1.0.0
description: Files, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  upload: {description: Upload, method: POST, path: /files, risk: {level: low}, args: [{name: purpose}], request: {body: {purpose: "{purpose}"}, body_type: multipart}}
  pay: {description: Pay, method: POST, path: /pay, risk: {level: low}, args: [{name: customer, type: object}], request: {body: {customer: "{customer}"}}}
`

// A rule that asks first whether something is there is not turned off by writing it
// in a way that kimbap and the server read differently; the same request without
// that passes.
func TestARuleIsNotTurnedOffByAnotherWayOfWriting(t *testing.T) {
	t.Parallel()
	const form, document = "application/x-www-form-urlencoded", "application/json"
	for _, c := range []struct {
		when, path, header, kind, body string
		status                         int
	}{
		{`has(args.purpose) && args.purpose == "train"`, "/files", "", document, `{"purpose":"train"}`, 403},
		{`has(args.purpose) && args.purpose == "train"`, "/files", "", form, `purpose=train`, 403},
		{`has(args.purpose) && args.purpose == "train"`, "/files?purpose=train", "", "", "", 403},
		{`has(args.customer) && args.customer == {"a": 1}`, "/files", "", document, `{"purpose":"train"}`, 200},
		{`"stripe-account" in request.headers`, "/files", "Stripe_Account: x", document, `{}`, 403},
		{`"stripe-account" in request.headers`, "/files", "Stripe-Version: x", document, `{}`, 200},
		{`request.body.?amount.orValue(0) > 100`, "/pay", "", document, `{"amount":1,"Amount":1000}`, 403},
		{`request.body.?amount.orValue(0) > 100`, "/pay", "", document, `{"Amount":1000}`, 403},
		{`request.body.?amount.orValue("") == "9"`, "/pay", "", form, `amount=1&amount[]=9`, 403},
		{`request.body.?amount.orValue("") == "9"`, "/pay", "", form, `amount=1&metadata[amount]=9`, 200},
		{`request.body.?amount.orValue(0) > 100`, "/pay", "", document, `{"amount":1,"of":{"Amount":1000}}`, 200},
		{`args.?customer.?role.orValue("") == "root"`, "/pay", "", document, `{"customer":{"Role":"root"}}`, 403},
		{`args.?customer.?role.orValue("") == "root"`, "/pay", "", document, `{"customer":{"role":"me","Name":"root"}}`, 200},
	} {
		k := apptest.New(t, apptest.Options{Services: []string{uploadService}, Policy: "version: 1\nrules:\n  - name: held\n    match: {service: files}\n    when: '" + c.when + "'\n    then: deny\n"})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+apptest.Host+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.kind != "" {
			r.Header.Set("Content-Type", c.kind)
		}
		if name, value, found := strings.Cut(c.header, ": "); found {
			r.Header[name] = append(r.Header[name], value)
		}
		res, err := k.Client(t, "").Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if sent := len(k.Up.Requests()); res.StatusCode != c.status || (sent == 1) != (c.status == 200) {
			t.Errorf("%s: %s %s %s: %d %s, %d sent", c.when, c.path, c.header, c.body, res.StatusCode, text, sent)
		}
	}
}

// What no rule can look at stays so while a request waits for a person: the process
// that executes it then knows as much of it as the one that asked.
func TestARuleThatCameMeanwhileJudgesAHeldRequestAlike(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]runtime.Code{
		`has(args.text) && args.text == "x"`: runtime.CodeForbidden,
		`has(args.list) && args.list == "x"`: runtime.CodeForbidden,
		`has(args.other)`:                    "",
	} {
		const service = `name: files
version: 1.0.0
description: Files, for tests
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  put: {description: Put, method: POST, path: /files, risk: {level: low}, args: [{name: text}, {name: list}, {name: other}], request: {query: {list: "{list}"}, body: {text: "{text}"}, headers: {X-Other: "{other}"}}}
`
		k := apptest.New(t, apptest.Options{Services: []string{service}, Policy: "version: 1\nrules: [{name: asked, match: {service: files}, then: require_approval}]\n"})
		target, body := "/files?text=x", ""
		if strings.Contains(when, "list") {
			target, body = "/files", `{"list":"x"}`
		}
		a := k.Do(t, "POST https://"+apptest.Host+target, body)
		if a.Problem.Approval == "" {
			t.Fatalf("%d %+v", a.Status, a.Problem)
		}
		person := k.Open(t, "person")
		if _, err := person.Accept(t.Context(), a.Problem.Approval, app.Yes{}); err != nil {
			t.Fatal(err)
		}
		k.Write(t, "policy.yaml", "version: 1\nrules:\n  - {name: closed, match: {service: files}, when: '"+when+"', then: deny}\n  - {name: asked, match: {service: files}, then: require_approval}\n")
		_, _, err := k.Open(t, "other").WaitApproval(t.Context(), a.Problem.Approval, &app.Answer{}, nil)
		if code := runtime.CodeOf(err); code != want || (len(k.Up.Requests()) == 1) != (want == "") {
			t.Errorf("%s: %v, %d sent", when, err, len(k.Up.Requests()))
		}
	}
}
