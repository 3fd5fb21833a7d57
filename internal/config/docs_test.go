package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/cli.md shows every key with its default; those of the master key stand in
// docs/vault.md.
func TestTheManualHasEveryKeyWithItsDefault(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## Home and configuration")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	shown, defaults := mustLoad(t, write(t, text), nil, nil).Entries(), mustLoad(t, write(t, ""), nil, nil).Entries()
	for i, e := range shown {
		if e.Origin == "default" && !strings.HasPrefix(e.Key, "master_key.") {
			t.Errorf("%s is not in docs/cli.md", e.Key)
		}
		if e.Value != defaults[i].Value {
			t.Errorf("%s is %q in docs/cli.md, %q by default", e.Key, e.Value, defaults[i].Value)
		}
	}
}

// docs/cli.md lists the keys that a running process applies, all of them and no other.
func TestTheManualSaysWhichKeysAreAppliedAtOnce(t *testing.T) {
	page, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "Applied at once: ")
	text, _, _ = strings.Cut(text, "\n\n")
	var said, live []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		said = append(said, m[1])
	}
	for _, e := range mustLoad(t, write(t, ""), nil, nil).Entries() {
		if e.Live {
			live = append(live, e.Key)
		}
	}
	if !slices.Equal(said, live) {
		t.Errorf("docs/cli.md says %v\nlive are     %v", said, live)
	}
}
