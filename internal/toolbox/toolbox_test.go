package toolbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/toolbox"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

const notes = `
name: notes
version: 1.0.0
description: Notes
base_url: https://api.notes.test
auth: {type: bearer, credential_ref: notes.token}
actions:
  get-note: {method: GET, path: "/notes/{id}", risk: {level: low}, args: [{name: id, type: string, required: true}]}
  delete-note: {method: DELETE, path: "/notes/{id}", risk: {level: high}, args: [{name: id, type: string, required: true}]}
`

func box(t *testing.T) toolbox.Box {
	t.Helper()
	set := servicestest.Set(t, "notes.yaml", notes)
	return toolbox.Box{
		Home: home.Folder{Dir: t.TempDir()}, Services: services.NewLive(set),
		Asks: func(_ *runtime.Principal, action *runtime.Action) bool { return action.Risk == runtime.RiskHigh },
		HasKey: func(_ context.Context, tenant runtime.Tenant, ref string) (bool, error) {
			return tenant == "acme" && ref == "notes.token", nil
		},
		Over:    func(context.Context, runtime.Tenant, *services.Service) bool { return false },
		Project: func() []string { return nil },
	}
}

// Whoever may read alone is told of what reads, and of nothing else.
func TestAPrincipalIsToldOfWhatItsScopesCover(t *testing.T) {
	t.Parallel()
	b := box(t)
	reader := &runtime.Principal{Tenant: "acme", Scopes: []runtime.Scope{"notes.get-note"}}
	other := &runtime.Principal{Scopes: []runtime.Scope{"tasks.*"}}
	if usable, err := b.Usable(reader, "notes"); err != nil || len(usable) != 1 || usable[0].Ref != "notes.get-note" {
		t.Errorf("usable: %v (%v)", usable, err)
	}
	list := b.Available(t.Context(), reader)
	if len(list) != 1 || list[0].Actions != 1 || list[0].Linked == nil || !*list[0].Linked || !list[0].NeedsKey || list[0].Scope != "global" {
		t.Errorf("available: %+v", list)
	}
	if list := b.Available(t.Context(), other); len(list) != 0 {
		t.Errorf("available to who may use none: %+v", list)
	}
	advice := b.Advise(reader, "")
	if len(advice) != 1 || !slices.Equal(advice[0].Actions, []string{"tools.notes.getNote"}) {
		t.Errorf("advice: %+v", advice)
	}
	if err := b.UnknownTo(other, "notes.get-notes"); strings.Contains(err.Msg, "did you mean") {
		t.Errorf("who may use none is told: %v", err)
	}
	if err := b.UnknownTo(reader, "notes.get-notes"); !strings.HasSuffix(err.Msg, "did you mean notes.get-note?") {
		t.Errorf("who misspells its own is told: %v", err)
	}
}

// While the store does not answer nobody is told that a key is missing.
func TestAKeyThatNobodyKnowsOfIsNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	b := box(t)
	b.HasKey = func(context.Context, runtime.Tenant, string) (bool, error) { return false, errors.New("away") }
	list := b.Available(t.Context(), &runtime.Principal{Tenant: "acme", Scopes: []runtime.Scope{"*"}})
	if len(list) == 0 {
		t.Fatal("nothing is listed")
	}
	for _, s := range list {
		if s.NeedsKey != (s.Linked == nil) {
			t.Errorf("%s: needs a key: %t, linked: %v", s.Name, s.NeedsKey, s.Linked)
		}
	}
}

// A password is of no use without the user name that goes with it.
func TestAKeyWithoutItsUserNameIsNone(t *testing.T) {
	t.Parallel()
	set := servicestest.Set(t, "calls.yaml", `
name: calls
version: 1.0.0
base_url: https://calls.test
auth: {type: basic, basic: {username_ref: calls.sid, password_ref: calls.token}}
actions: {get: {method: GET, path: /x}}
`)
	b, stored := box(t), map[string]bool{"calls.token": true}
	b.Services = services.NewLive(set)
	b.HasKey = func(_ context.Context, _ runtime.Tenant, ref string) (bool, error) { return stored[ref], nil }
	for _, want := range []bool{false, true} {
		list := b.Available(t.Context(), &runtime.Principal{Scopes: []runtime.Scope{"*"}})
		if len(list) != 1 || list[0].Linked == nil || *list[0].Linked != want {
			t.Errorf("with %v: %+v", stored, list)
		}
		stored["calls.sid"] = true
	}
}

func TestAnActionIsDescribed(t *testing.T) {
	t.Parallel()
	b, owner := box(t), &runtime.Principal{Scopes: []runtime.Scope{"*"}}
	for _, name := range []string{"notes.delete-note", "tools.notes.deleteNote"} {
		said, err := b.Describe(owner, name)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(said)
		for _, part := range []string{`"risk":"high"`, `"approval":true`, `"destructiveHint":true`, `"readOnlyHint":false`, `"required":["id"]`, `"additionalProperties":false`} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: no %s in %s", name, part, text)
			}
		}
	}
	if _, err := b.Describe(&runtime.Principal{}, "notes.get-note"); runtime.CodeOf(err) != runtime.CodeUnknownAction {
		t.Errorf("described to who may not use it: %v", err)
	}
}

// What a list is bounded by bounds its elements, and a text in a body in parts may be a file: a
// client that keeps to the schema, and to the types, has its call taken.
func TestListsAndFilesAreDescribed(t *testing.T) {
	t.Parallel()
	set := servicestest.Set(t, "described.yaml", `
name: described
version: 1.0.0
base_url: https://described.test
auth: {type: none}
actions:
  list: {method: GET, path: /i, args: [{name: states, type: array, enum: [open, done]}, {name: names, type: array, pattern: '^[a-z]+$'}]}
  send: {method: POST, path: /f, risk: {level: low}, args: [{name: file, required: true}, {name: kind, enum: [a, b]}], request: {body_type: multipart}}
`)
	b := box(t)
	b.Services = services.NewLive(set)
	for name, parts := range map[string][]string{
		"described.list": {
			`"states":{"items":{"enum":["open","done"]},"type":"array"}`, `"names":{"items":{"pattern":"^[a-z]+$"},"type":"array"}`,
			`states?: (\"open\" | \"done\")[];`,
		},
		"described.send": {
			`"file":{"anyOf":[{"type":"string"},{"additionalProperties":false,"properties":{"base64":{`, `"required":["filename"],"type":"object"}]}`,
			`"kind":{"enum":["a","b"],"type":"string"}`, `file: string | {filename: string; content?: string; base64?: string; content_type?: string};`,
		},
	} {
		said, err := b.Describe(&runtime.Principal{Scopes: []runtime.Scope{"*"}}, name)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := json.Marshal(said)
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s: no %s in %s", name, part, text)
			}
		}
	}
}

func TestWhatIsSaidOfANameThatIsNone(t *testing.T) {
	t.Parallel()
	b := box(t)
	for name, fix := range map[string]string{"github.list-issues": "kimbap service install github", "notes.nothing-of-it": "kimbap actions list notes", "nowhere.at-all": "kimbap service list --catalog"} {
		if _, err := b.Action(name); err == nil || runtime.AsError(err).Hint != fix {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := b.Bring([]string{"github", "notes", "nonsense"}); !slices.Equal(got, []string{"kimbap service install github"}) {
		t.Errorf("what brings them: %q", got)
	}
}
