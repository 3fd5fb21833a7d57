package sandbox

import (
	"slices"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// toolset is a service with actions of these names, for somebody who may use all.
func toolset(names ...string) *tools {
	s := Service{Name: "notes", Aliases: []string{"n"}}
	for _, name := range names {
		s.Actions = append(s.Actions, &runtime.Action{Ref: runtime.Ref("notes." + name), Service: "notes", Name: name})
	}
	return &tools{catalog: Catalog{Services: []Service{s}}, who: &runtime.Principal{Scopes: []runtime.Scope{"*"}}}
}

// A source may name thousands of tools that there are not. What each may have meant is not
// looked for until it is called, or somebody asks what is wrong with the source.
func TestTheManifestGuessesNothing(t *testing.T) {
	tools, guesses := toolset("get-note"), 0
	tools.catalog.Suggest = func(string) []string { guesses++; return nil }
	tools.catalog.Missing = func(string) (string, string) { guesses++; return "", "" }
	paths := []string{"notes.getNote", "notes.a0", "other.a0", "n.get_note"}
	if got := tools.manifest(paths); !slices.Equal(got, []string{"notes.a0", "notes.get-note", "other.a0"}) {
		t.Errorf("manifest %q", got)
	}
	tools.allow = []runtime.Glob{"other.*"}
	if got := tools.leftOut(paths); !slices.Equal(got, []string{"notes.get-note"}) {
		t.Errorf("left out %q", got)
	}
	if guesses != 0 {
		t.Errorf("%d guesses were made", guesses)
	}
	if _, err := tools.find("notes.a0"); err == nil || guesses == 0 {
		t.Errorf("of a call nothing was guessed: %v", err)
	}
}

// A name that is written exactly is that action's, whatever else could be written so.
func TestAnExactNameComesFirst(t *testing.T) {
	for _, names := range [][]string{{"get-2x", "get2x"}, {"get2x", "get-2x"}, {"list_all", "list-all"}, {"list-all", "list_all"}} {
		tools := toolset(names...)
		for _, name := range names {
			if got := tools.lookup("notes." + name); got == nil || got.Name != name {
				t.Errorf("of %q %s is %v", names, name, got)
			}
		}
	}
	if got := toolset("get-2x").lookup("notes.get2x"); got == nil || got.Name != "get-2x" {
		t.Errorf("the only one that may be written so is %v", got)
	}
}

// A name that the engine gives no tool for is that of none, however it is asked for: before,
// the check of a source let it pass, and its call was of undefined.
func TestANameThatTheLanguageAsksForIsNoTool(t *testing.T) {
	tools := toolset("then", "constructor", "prototype", "inspect", "and-then")
	paths := []string{"notes.then", "notes.constructor", "n.prototype", "notes.inspect", "notes.andThen", "notes.and.then"}
	if got, _ := tools.strange(paths); !slices.Equal(got, []string{"n.prototype", "notes.and.then", "notes.constructor", "notes.then"}) {
		t.Errorf("strange are %q", got)
	}
	var names []string
	for _, action := range tools.available() {
		names = append(names, action.Name)
	}
	if !slices.Equal(names, []string{"and-then", "inspect"}) {
		t.Errorf("there are %q", names)
	}
}
