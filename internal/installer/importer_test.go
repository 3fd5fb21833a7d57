package installer_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/internal/installer"
)

// A description that is itself a link is the one that it leads to, and what that refers to stands
// beside that.
func TestADescriptionMayBeALink(t *testing.T) {
	real, links := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"api.yaml":   `{openapi: 3.0.0, servers: [{url: "https://x.test"}], paths: {/a: {get: {parameters: [{$ref: "parts.yaml#/p"}]}}}}`,
		"parts.yaml": `{p: {name: page, in: query, schema: {type: integer}}}`,
	} {
		if err := os.WriteFile(filepath.Join(real, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(real, "api.yaml"), filepath.Join(links, "linked.yaml")); err != nil {
		t.Fatal(err)
	}
	r, err := installer.ImportFile(installer.Import{From: filepath.Join(links, "linked.yaml")})
	if err != nil || r.Imported != 1 || !strings.Contains(string(r.YAML), "name: page") || !strings.Contains(string(r.YAML), "Imported from linked.yaml") {
		t.Errorf("%v %+v", err, r)
	}
	if err := os.Remove(filepath.Join(real, "api.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := installer.ImportFile(installer.Import{From: filepath.Join(links, "linked.yaml")}); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Errorf("a link that leads to nothing: %v", err)
	}
}
