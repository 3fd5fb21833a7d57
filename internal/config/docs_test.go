package config

import (
	"os"
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
