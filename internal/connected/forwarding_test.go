package connected

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

// Without a folder for temporary files a proxy says what helps, and leaves nothing behind.
func TestKeysThatCannotBeWrittenSayWhatHelps(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", nowhere)
	t.Setenv("TMP", nowhere) // of Windows
	dir, err := (&forwarding{address: "127.0.0.1:1"}).keys([]byte("root"))
	var told *runtime.Error
	if !errors.As(err, &told) || told.Code != runtime.CodeInvalidInput || !strings.Contains(told.Hint, "TMPDIR") || !strings.Contains(told.Msg, nowhere) || told.Err == nil {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(nowhere); dir != "" || !os.IsNotExist(err) {
		t.Errorf("left %q, %v", dir, err)
	}
}

// TMPDIR may be relative to a folder that the programs are not in.
func TestTheKeysOfAProxyHaveWholePaths(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", ".")
	t.Setenv("TMP", ".") // of Windows
	if dir, err := (&forwarding{address: "127.0.0.1:1"}).keys([]byte("root")); err != nil || !filepath.IsAbs(dir) {
		t.Errorf("they are in %s, %v", dir, err)
	}
}
