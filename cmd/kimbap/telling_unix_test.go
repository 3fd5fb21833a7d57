//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that was to be its owner's only, and that others can read where it lies, is told of.
func TestAFileThatOthersCanReadIsToldOf(t *testing.T) {
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o644: true, 0o777: true} {
		path := filepath.Join(t.TempDir(), "copy.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // as a stick has it
			t.Fatal(err)
		}
		var said strings.Builder
		(&cli{err: &said}).tellOpen(path, "it holds keys")
		if told := strings.Contains(said.String(), "other users can read "+path) && strings.Contains(said.String(), "it holds keys"); told != want {
			t.Errorf("%04o: it says %q", mode, said.String())
		}
	}
}
