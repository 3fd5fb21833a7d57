package sandbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
)

// Where no action has all the words, those with the longer ones in their names come, the
// best first; what begins with a short word is chance.
func TestASearchOfWordsThatNothingHasAll(t *testing.T) {
	var actions []*runtime.Action
	for name, text := range map[string]string{"create-admin-key": "Make an administration key", "post-message": "Write into a channel", "update-message": "Change what was written", "list-channels": "List channels"} {
		actions = append(actions, &runtime.Action{Ref: runtime.Ref("chat." + name), Service: "chat", Name: name, Description: text})
	}
	for query, want := range map[string][]string{
		"send a message":             {"chat.post-message", "chat.update-message"},
		"list a channel":             {"chat.list-channels"},
		"please post my message":     {"chat.post-message", "chat.update-message"},
		"a":                          {"chat.create-admin-key", "chat.post-message"},
		"is it up":                   {},
		"to be or not to be, that's": {},
	} {
		found, err := sandbox.SearchActions(actions, nil, sandbox.Search{Query: query}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, item := range found.Items {
			got = append(got, item.Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || found.Partial != (len(want) > 0 && query != "a") {
			t.Errorf("%s: %q, partial: %t, want %q", query, got, found.Partial, want)
		}
	}
}

// Of two actions that have every word the one that is just those words comes first, in
// whatever order they are loaded: a script's tools are not loaded as those of the terminal.
func TestASearchPutsWhatIsJustTheWordsFirst(t *testing.T) {
	exact := &runtime.Action{Ref: "github.list-pull-requests", Service: "github", Name: "list-pull-requests"}
	more := &runtime.Action{Ref: "github.list-pull-request-files", Service: "github", Name: "list-pull-request-files"}
	for _, actions := range [][]*runtime.Action{{exact, more}, {more, exact}} {
		found, err := sandbox.SearchActions(actions, nil, sandbox.Search{Query: "list pull requests"}, nil)
		if err != nil || len(found.Items) != 2 || found.Items[0].Name != string(exact.Ref) {
			t.Errorf("%+v, %v", found.Items, err)
		}
	}
}

// Words are compared with those of every action, by the process that serves all: those
// behind the first 32 that differ do not count, nor those that are said again.
func TestASearchComparesSoManyWords(t *testing.T) {
	note := &runtime.Action{Ref: "notes.get-note", Service: "notes", Name: "get-note"}
	var others []string
	for i := range 31 {
		others = append(others, fmt.Sprint("w", i))
	}
	for query, want := range map[string]int{
		strings.Repeat("w0 ", 40) + "note":            1,
		strings.Join(others, " ") + " note":           1,
		strings.Join(others, " ") + " w31 note":       0,
		"note " + strings.Join(others, " ") + " more": 1,
	} {
		found, err := sandbox.SearchActions([]*runtime.Action{note}, nil, sandbox.Search{Query: query}, nil)
		if err != nil || found.Total != want {
			t.Errorf("%q: %+v, %v", query, found, err)
		}
	}
}
