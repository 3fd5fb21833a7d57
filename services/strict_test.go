package services_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/classifier"
)

const strictly = `
name: strictly
version: 1.0.0
base_url: https://api.strictly.test
strict: true
actions:
  put:
    description: Members of one object
    method: PUT
    path: /x
    args: [{name: amount, type: integer, maximum: 100}]
  whole:
    description: A document of any kind
    method: POST
    path: /x
    args: [{name: input, type: array}]
    request: {body: "{input}"}
  first:
    description: The first of a list
    method: PATCH
    path: /x
    args: [{name: amount, type: integer}]
    request: {body: [{amount: "{amount}"}]}
  inner:
    description: A member of an object within
    method: DELETE
    path: /x
    args: [{name: amount, type: integer, maximum: 100}, {name: id}]
    request: {body: {order: {amount: "{amount}", ids: ["{id}"]}}}
`

// A strict service takes no list of what should be one object, nor one where it has a list: its
// arguments would pass unseen, and some servers take each element for one, or one for a list.
func TestAStrictServiceTakesNoListForAnObject(t *testing.T) {
	t.Parallel()
	table := set(t, strictly).Table()
	for _, c := range []struct {
		method, body string
		taken        bool
	}{
		{"PUT", `{"amount": 1}`, true},
		{"PUT", `{}`, true},
		{"PUT", ``, true},
		{"PUT", `[{"amount": 1000}]`, false},
		{"PUT", `"amount"`, false},
		{"PUT", `null`, false},
		{"POST", `[{"amount": 1000}]`, true},
		{"PATCH", `[{"amount": 1000}]`, true},
		{"PATCH", `[]`, true},
		{"PATCH", `{}`, true},
		{"PATCH", `{"amount": 1000}`, false},
		{"PATCH", `1000`, false},
		{"DELETE", `{"order": {"ids": "a"}}`, false},
		{"DELETE", `{"order": {"ids": {"id": "a"}}}`, false},
		{"DELETE", `{"order": {"ids": null}}`, true},
		{"DELETE", `{"order": {"amount": 1, "ids": ["a"]}}`, true},
		{"DELETE", `{"order": {"ids": []}}`, true},
		{"DELETE", `{"order": null}`, true},
		{"DELETE", `{}`, true},
		{"DELETE", `{"order": [{"amount": 1000}]}`, false},
		{"DELETE", `{"order": "amount=1000"}`, false},
		{"DELETE", `[]`, false},
	} {
		body, err := classifier.ParseBody("application/json", "", []byte(c.body))
		if err != nil {
			t.Fatal(err)
		}
		_, err = table.Match(classifier.Input{Scheme: "https", Authority: "api.strictly.test:443", Method: c.method, Target: "/x", Body: body})
		if (err == nil) != c.taken {
			t.Errorf("%s %s: %v", c.method, c.body, err)
		}
	}
}
