//go:build unix

package wrap_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime/vault"
	"github.com/kimbap-run/kimbap/runtime/vault/wrap"
)

// A key is not replaced where its file is a link, also one that leads nowhere yet.
func TestNoKeyFollowsALink(t *testing.T) {
	for name, keeps := range map[string]func(path string) vault.KeyWrapper{
		"file":    func(path string) vault.KeyWrapper { return wrap.File{Path: path} },
		"service": func(path string) vault.KeyWrapper { return wrap.Service{Path: path, Cipher: command("good")} },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "master.key")
		if err := os.Symlink(filepath.Join(dir, "stick"), path); err != nil {
			t.Fatal(err)
		}
		if _, err := keeps(path).Next(t.Context()); err == nil || !strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: %v", name, err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%s: it left %v, %v", name, files, err)
		}
	}
}
