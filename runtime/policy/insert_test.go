package policy_test

import (
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/policy"
)

const added = `{name: new, match: {action: "notes.delete-note"}, then: allow}`

// A rule is put first, whatever the file looks like, and not one other byte
// changes.
func TestInsertKeepsEverythingElse(t *testing.T) {
	for name, file := range map[string]struct{ before, after string }{
		"empty":    {"", "version: 1\nrules:\n  - NEW\n"},
		"no rules": {"version: 1 # mine\ndefaults: {low: allow}", "version: 1 # mine\ndefaults: {low: allow}\nrules:\n  - NEW\n"},
		"none yet": {"rules: # later\nversion: 1\n", "rules: # later\n  - NEW\nversion: 1\n"},
		"a block": {
			"version: 1\nrules:\n  # reads are fine\n  - name: a\n    match: {}\n    then: allow # yes\n# end\n",
			"version: 1\nrules:\n  - NEW\n  # reads are fine\n  - name: a\n    match: {}\n    then: allow # yes\n# end\n",
		},
		"not indented": {"version: 1\nrules:\n- {name: a, match: {}, then: deny}\n", "version: 1\nrules:\n- NEW\n- {name: a, match: {}, then: deny}\n"},
		"one line":     {"version: 1\nrules: [{name: ä, match: {}, then: deny}] # all\n", "version: 1\nrules: [NEW, {name: ä, match: {}, then: deny}] # all\n"},
		"empty list":   {"version: 1\nrules: []\n", "version: 1\nrules: [NEW]\n"},
		"no last end":  {"version: 1\nrules:", "version: 1\nrules:\n  - NEW\n"},
	} {
		got, err := policy.Insert([]byte(file.before), added)
		if want := strings.ReplaceAll(file.after, "NEW", added); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	for name, file := range map[string]string{
		"on one line": "{version: 1, rules: []}", "a list": "- 1\n", "not YAML": "a: [", "a word": "rules: some\n",
	} {
		if got, err := policy.Insert([]byte(file), added); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// The file that init writes takes one, and the rule decides.
func TestInsertIntoTheDefaultFile(t *testing.T) {
	got, err := policy.Insert(policy.DefaultFile(false), added)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(got), string(policy.DefaultFile(false))) {
		t.Error("something else was changed")
	}
}
