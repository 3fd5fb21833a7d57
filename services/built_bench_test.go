package services_test

import (
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const everyBody = `
name: every
version: 1.0.0
base_url: https://api.every.test/v1
actions:
  get:
    method: GET
    path: /repos/{owner}/{repo}/pulls
    args: [{name: state, enum: [open, closed]}, {name: per_page, type: integer}, {name: sort}]
  json:
    method: POST
    path: /repos/{owner}/{repo}/issues
    args: [{name: title, required: true}, {name: body}, {name: labels, type: array}, {name: milestone, type: integer}]
  form:
    method: POST
    path: /charges
    args: [{name: amount, type: integer}, {name: currency}, {name: more, rest: true}]
    request: {body_type: form}
  parts:
    method: POST
    path: /files
    args: [{name: purpose}, {name: file}]
    request: {body_type: multipart}
  text:
    method: PUT
    path: /values/{key}
    args: [{name: value}]
    request: {body: "{value}", body_type: raw}
`

// BenchmarkBuilt is what a request costs that kimbap makes: to be judged and to be ready to
// be sent, but for its credential.
func BenchmarkBuilt(b *testing.B) {
	all := set(b, everyBody)
	for _, c := range []struct {
		action runtime.Ref
		in     args
	}{
		{"every.get", args{"owner": "acme", "repo": "site", "state": "open", "per_page": n("50"), "sort": "created"}},
		{"every.json", args{"owner": "acme", "repo": "site", "title": "It does not start", "body": "It says \"no\" & ends.", "labels": []any{"bug", "new"}, "milestone": n("4")}},
		{"every.form", args{"amount": n("1200"), "currency": "eur", "description": "a chair", "receipt_email": "a@b.test"}},
		{"every.parts", args{"purpose": "batch", "file": map[string]any{"filename": "a.json", "content": "{}"}}},
		{"every.text", args{"key": "k", "value": "as it is"}},
	} {
		b.Run(string(c.action), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.in}); err != nil || found.Built == nil {
					b.Fatal(err)
				}
			}
		})
	}
}
