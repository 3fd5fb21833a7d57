package system

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file system without hard links, as that of most sticks, names a file all the same, and never
// in the place of another.
func TestAFileGetsItsNameWithoutHardLinks(t *testing.T) {
	for how, link := range map[string]func(from, to string) error{
		"links": os.Link,
		"none":  func(string, string) error { return syscall.EPERM },
	} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name, text string) string {
				path := filepath.Join(dir, name)
				if text != "" {
					if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				return path
			}
			if err := entitle(at("one.new", "one"), at("name", ""), link); err != nil {
				t.Fatal(err)
			}
			if err := entitle(at("two.new", "two"), at("name", ""), link); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a name that is taken: %v", err)
			}
			if text, err := os.ReadFile(at("name", "")); string(text) != "one" || err != nil {
				t.Errorf("it holds %q, %v", text, err)
			}
			if text, err := os.ReadFile(at("two.new", "")); string(text) != "two" || err != nil {
				t.Errorf("what got no name holds %q, %v", text, err)
			}
			if err := entitle(at("gone", ""), at("other", ""), link); err == nil {
				t.Error("a file that is not there got a name")
			}
		})
	}
}
