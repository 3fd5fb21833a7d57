package services_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
)

// At one path a body tells actions apart, and some of those that write one say what it is
// in a field that an argument fills.
const told = `
name: told
version: 1.0.0
base_url: https://api.told.test
actions:
  promote:
    method: [POST, PUT, PATCH, DELETE]
    path: /members
    match: {body: {/role: admin}}
    risk: {level: critical}
  text:
    method: POST
    path: /members
    risk: {level: low}
    args: [{name: kind, default: text/plain}, {name: input}]
    request: {headers: {Content-Type: "{kind}"}, body: "{input}", body_type: raw}
  kinds:
    method: PUT
    path: /members
    risk: {level: low}
    args: [{name: kind}, {name: a}, {name: role, type: array}]
    request: {headers: {Content-Type: "{kind}"}, body: {a: "{a}", role: "{role}"}}
  share:
    method: POST
    path: /shares
    risk: {level: low}
    args: [{name: with, enum: [team, nobody]}, {name: label, pattern: "^[a-z]+$"}, {name: file}, {name: more, rest: true}]
    request: {body: {with: "{with}", label: "{label}", file: "{file}"}, body_type: multipart}
  several:
    method: PATCH
    path: /members
    risk: {level: low}
    args: [{name: kinds, type: array}, {name: input}]
    request: {headers: {Content-Type: "{kinds}"}, body: "{input}", body_type: raw}
  note:
    method: POST
    path: /notes
    risk: {level: low}
    args: [{name: kind, default: application/json}, {name: a}, {name: role}]
    request: {headers: {Content-Type: "{kind}"}, body: {a: "{a}", role: "{role}"}}
  notes:
    method: POST
    path: /notes/all
    risk: {level: low}
    args: [{name: kinds, type: array}, {name: input}]
    request: {headers: {Content-Type: "{kinds}"}, body: "{input}", body_type: raw}
`

// What decides is what is sent: the bytes of the body, as those read it who go by the
// Content-Type that is sent with it.
func TestTheBodyIsJudgedAsItIsSent(t *testing.T) {
	all := set(t, told)
	for name, c := range map[string]struct {
		action runtime.Ref
		in     args
		reason runtime.Reason // "": it is that action
	}{
		"text that is JSON to who reads it":       {"told.text", args{"input": `{"role":"admin"}`, "kind": "application/json"}, "other"},
		"text that is JSON and harmless":          {"told.text", args{"input": `{"role":"guest"}`, "kind": "application/json"}, ""},
		"text that is a form":                     {"told.text", args{"input": `role=admin`, "kind": "application/x-www-form-urlencoded"}, "other"},
		"text that nobody reads":                  {"told.text", args{"input": `role=admin`}, runtime.ReasonUnsupportedMedia},
		"a document that calls itself a form":     {"told.kinds", args{"a": "&role=admin&", "kind": "application/x-www-form-urlencoded"}, runtime.ReasonUnsupportedMedia},
		"a document of an unknown type":           {"told.kinds", args{"a": "x", "kind": "text/plain"}, runtime.ReasonUnsupportedMedia},
		"a document that says what it is":         {"told.kinds", args{"a": "&role=admin&", "kind": "application/merge-patch+json"}, ""},
		"one of another charset":                  {"told.kinds", args{"a": "x", "kind": "application/json; charset=utf-16"}, runtime.ReasonUnsupportedMedia},
		"a document":                              {"told.kinds", args{"a": "x"}, ""},
		"two types, of which a reader takes one":  {"told.several", args{"input": `{"a":"&role=admin&"}`, "kinds": []any{"application/json", "application/x-www-form-urlencoded"}}, runtime.ReasonDuplicateParameter},
		"two types where no body decides":         {"told.notes", args{"input": "a", "kinds": []any{"text/plain", "text/csv"}}, runtime.ReasonDuplicateParameter},
		"one type in a list":                      {"told.notes", args{"input": "a", "kinds": []any{"text/plain"}}, ""},
		"a document as a form of other arguments": {"told.note", args{"a": "&role=admin&", "kind": "application/x-www-form-urlencoded"}, runtime.ReasonUnsupportedMedia},
		"a document as a form in a list of types": {"told.note", args{"a": "&role=admin&", "kind": "Text/Plain, Application/X-WWW-Form-URLencoded"}, runtime.ReasonUnsupportedMedia},
		"a document that may be a form to Rack":   {"told.note", args{"a": "&role=admin&", "kind": ""}, runtime.ReasonUnsupportedMedia},
		"a document that calls itself text":       {"told.note", args{"a": "&role=admin&", "kind": "text/plain"}, ""},
		"a harmless one that calls itself a form": {"told.note", args{"a": "x", "kind": "application/x-www-form-urlencoded"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := all.Resolve(&runtime.Request{Action: c.action, Args: c.in})
			e := (*runtime.Error)(nil)
			switch {
			case c.reason == "" && err != nil:
				t.Error(err)
			case c.reason == "":
			case !errors.As(err, &e) || e.Code != runtime.CodeInvalidInput:
				t.Errorf("it is taken: %v", err)
			case c.reason == "other" && e.Hint == "", c.reason != "other" && e.Reason != c.reason:
				t.Errorf("reason %q: %v", e.Reason, err)
			}
		})
	}
}

// A file stands where the service has nothing to say of its text: some servers read one that
// stands in the place of a field like the field.
func TestAFileIsNoWayAroundTheSchema(t *testing.T) {
	all, file := set(t, told), map[string]any{"filename": "a.txt", "content": "everybody"}
	for name, taken := range map[string]bool{"with": false, "label": false, "file": true} {
		if _, err := all.Resolve(&runtime.Request{Action: "told.share", Args: args{name: file}}); (err == nil) != taken {
			t.Errorf("a file as %s: %v", name, err)
		}
	}
}

// What a file holds is no part of its own: what parts them is kimbap's and cannot be guessed.
// Mails, patches and data about HTTP are sent, and names ask for nothing all the same.
func TestWhatAFileHoldsIsNoPart(t *testing.T) {
	all := set(t, told)
	for name, text := range map[string]string{
		"a patch":      "--- a/x\n+++ b/x\n+Content-Disposition: form-data; name=_method\n\n",
		"a mail":       "--b\r\nContent-Disposition: attachment; name=\"=?utf-8?B?eA==?=\"\r\n\r\nx\r\n--b--\r\n",
		"a line of it": "--\n{\"a\":\"content-disposition" + strings.Repeat(" ", 20000) + "\"}\n",
		"a form":       "--x\r\nContent-Disposition: form-data; name=\"_method\"\r\n\r\nDELETE\r\n--x--\r\n",
	} {
		in := args{"file": map[string]any{"filename": "a.txt", "content": text}}
		found, err := all.Resolve(&runtime.Request{Action: "told.share", Args: in})
		if err != nil || !strings.Contains(string(found.Built.Body), text) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err = all.Resolve(&runtime.Request{Action: "told.share", Args: args{"file": text}}); err != nil {
			t.Errorf("%s as a field: %v", name, err)
		}
		file := in["file"].(map[string]any)
		file["content_type"] = "Multipart/Mixed; boundary=x"
		if _, err = all.Resolve(&runtime.Request{Action: "told.share", Args: in}); err == nil {
			t.Errorf("%s: in parts itself it is not looked at", name)
		}
		delete(file, "content_type")
		in["_method"] = "DELETE"
		if _, err = all.Resolve(&runtime.Request{Action: "told.share", Args: in}); err == nil {
			t.Errorf("%s: a field asks for another method", name)
		}
	}
}

const inParts = `
name: parted
version: 1.0.0
base_url: https://api.parted.test
actions:
  promote:
    method: [POST, PATCH]
    path: /members
    match: {body: {/role: admin}}
    risk: {level: critical}
  promote-inside:
    method: POST
    path: /inside
    match: {body: {/member/right: "*"}}
    risk: {level: critical}
  inside:
    method: POST
    path: /inside
    risk: {level: low}
    args: [{name: file}, {name: more, rest: true}]
    request: {body_type: multipart}
  picture:
    method: POST
    path: /members
    risk: {level: low}
    args: [{name: file}, {name: more, rest: true}]
    request: {body_type: multipart}
  whole:
    method: PATCH
    path: /members
    risk: {level: low}
    args: [{name: input, type: object}]
    request: {body: "{input}", body_type: multipart}
  of-kind:
    method: POST
    path: /pictures
    risk: {level: low}
    args: [{name: kind}, {name: input, type: object}]
    request: {query: {kind: "{kind}"}, body: "{input}", body_type: multipart}
`

// A body in parts is told from a document by its type, as long as none of its parts could
// be what decides in the document: servers read a part like a member or field of that name.
func TestABodyInPartsIsNoneThatAPartDecides(t *testing.T) {
	all := set(t, inParts)
	takes := func(ref runtime.Ref, in args) bool {
		found, err := all.Resolve(&runtime.Request{Action: ref, Args: in})
		if err == nil && found.Built.Body == nil {
			t.Fatalf("%s with %v has no body", ref, in)
		}
		if err != nil && runtime.CodeOf(err) != runtime.CodeInvalidInput {
			t.Errorf("%s with %v: %v", ref, in, err)
		}
		return err == nil
	}
	for name, taken := range map[string]bool{
		"note": true, "roles": true, "my role": true, "right": true, "x[role]": true, "members": true,
		"role": false, "Role": false, "role[]": false, "role[0]": false, " role": false, "role.x": false, "ro%6Ce": false,
		"=?utf-8?q?role?=": false, "x; name=role": false, `x"; name="role`: true, `x\"; name=role`: false, "x name=role": false,
	} {
		in := args{"file": map[string]any{"filename": "a.png", "content": "x"}, name: "admin"}
		if takes("parted.picture", in) != taken {
			t.Errorf("a part named %q is taken: %v", name, !taken)
		}
		if takes("parted.whole", args{"input": in}) != taken {
			t.Errorf("a part named %q of a whole body is taken: %v", name, !taken)
		}
	}
	for name, taken := range map[string]bool{"right": true, "members": true, "member": false, "member[right]": false, "member.right": false, "Member": false} {
		if takes("parted.inside", args{name: "x"}) != taken {
			t.Errorf("a part named %q beside one of its members is taken: %v", name, !taken)
		}
	}
	for name, taken := range map[string]bool{"a.png": true, "role": true, "a; name=role": false, `a"; name="role`: true, "name=role": false} {
		file := map[string]any{"filename": name, "content": "--x\r\nContent-Disposition: form-data; name=role\r\n\r\nadmin\r\n"}
		if takes("parted.picture", args{"file": file}) != taken {
			t.Errorf("a file named %q is taken: %v", name, !taken)
		}
	}
	file := map[string]any{"filename": "a", "content": "x", "content_type": "text/plain; name=role"}
	if !takes("parted.picture", args{"file": file}) {
		t.Error("the type of a file is no name")
	}
	for name, taken := range map[string]bool{"title": true, "kind": false, "kind[]": false} {
		if takes("parted.of-kind", args{"kind": "user", "input": map[string]any{name: "admin"}}) != taken {
			t.Errorf("a part named %q beside an argument of the query is taken: %v", name, !taken)
		}
	}
}

// A file is refused for an action that no arguments make a call of, and for no other.
func TestWhatSomeArgumentsCallIsNoMistake(t *testing.T) {
	const text = `
name: some
version: 1.0.0
base_url: https://api.some.test
actions:
  guarded:
    method: POST
    path: /files
    match: {query: {as: media}, body: {/acl: "*"}}
    risk: {level: critical}
  send:
    method: POST
    path: /files
    risk: {level: low}
    args: [ARG, {name: input}]
    request: {query: {as: "{as}"}, body: "{input}", body_type: raw}
`
	for arg, right := range map[string]bool{
		"{name: as, enum: [media, plain]}":                 true,
		"{name: as, enum: [plain, media]}":                 true,
		"{name: as, enum: [media]}":                        true, // nobody need give it
		"{name: as, enum: [media], required: true}":        false,
		"{name: as, enum: [media], default: media}":        false,
		"{name: as, enum: [media, plain], required: true}": true,
		"{name: as, required: true}":                       true,
	} {
		if _, err := services.Parse("some.yaml", []byte(strings.Replace(text, "ARG", arg, 1))); (err == nil) != right {
			t.Errorf("with %s: %v", arg, err)
		}
	}
}
