package sandbox_test

import (
	"slices"
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
