package graft_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/policy"
	"github.com/kimbap-run/kimbap/runtime/policy/graft"
)

const added = `{name: new, match: {action: "notes.delete-note"}, then: allow}`

// A rule is put before the one named, else behind all, whatever the file looks
// like, and not one other byte changes.
func TestInsertKeepsEverythingElse(t *testing.T) {
	for name, file := range map[string]struct{ before, after string }{
		"empty":    {"", "version: 1\nrules:\n  - NEW\n"},
		"no rules": {"version: 1 # mine\ndefaults: {low: allow}", "version: 1 # mine\ndefaults: {low: allow}\nrules:\n  - NEW\n"},
		"none yet": {"rules: # later\nversion: 1\n", "rules: # later\n  - NEW\nversion: 1\n"},
		"behind a block": {
			"version: 1\nrules:\n  # reads are fine\n  - name: a\n    match: {}\n    then: allow # yes\n# end\n",
			"version: 1\nrules:\n  # reads are fine\n  - name: a\n    match: {}\n    then: allow # yes\n  - NEW\n# end\n",
		},
		"between": {
			"rules:\n  - name: a\n    then: deny\n\n  # big ones\n  - name: b\n    then: allow\nversion: 1\n",
			"rules:\n  - name: a\n    then: deny\n  - NEW\n\n  # big ones\n  - name: b\n    then: allow\nversion: 1\n",
		},
		"not the last key": {
			"rules:\n  - name: a\n    then: deny\n\n# of the file\nversion: 1\n",
			"rules:\n  - name: a\n    then: deny\n  - NEW\n\n# of the file\nversion: 1\n",
		},
		"first":        {"version: 1\nrules:\n  # b it is\n  - {name: b}\n", "version: 1\nrules:\n  - NEW\n  # b it is\n  - {name: b}\n"},
		"not indented": {"version: 1\nrules:\n- {name: a, match: {}, then: deny}\n", "version: 1\nrules:\n- {name: a, match: {}, then: deny}\n- NEW\n"},
		"no line end":  {"rules:\n- {name: a}", "rules:\n- {name: a}\n- NEW\n"},
		"one line":     {"version: 1\nrules: [{name: ä, then: deny}, {name: b}] # all\n", "version: 1\nrules: [{name: ä, then: deny}, NEW, {name: b}] # all\n"},
		"empty list":   {"version: 1\nrules: []\n", "version: 1\nrules: [NEW]\n"},
		"no last end":  {"version: 1\nrules:", "version: 1\nrules:\n  - NEW\n"},
	} {
		got, err := graft.Insert([]byte(file.before), added, "b")
		if want := strings.ReplaceAll(file.after, "NEW", added); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, file := range map[string]string{
		"on one line": "{version: 1, rules: []}", "a list": "- 1\n", "not YAML": "a: [", "a word": "rules: some\n",
		"behind a list on one line": "version: 1\nrules: [{name: a, then: deny}]\n", "a block text": "rules:\n- name: a\n  reason: |\n    one\n    # two\n",
	} {
		if got, err := graft.Insert([]byte(file), added, "b"); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The file that init writes takes one, and the rule decides.
func TestInsertIntoTheDefaultFile(t *testing.T) {
	got, err := graft.Insert(policy.DefaultFile(false), added, "default:high")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(got), string(policy.DefaultFile(false))) {
		t.Error("something else was changed")
	}
}
