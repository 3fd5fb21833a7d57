//go:build unix

package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
)

// scarceVar holds the database of the process that has no descriptors left.
const scarceVar = "KIMBAP_TEST_SCARCE"

// A process that has no descriptors left is told so, and not to change the rights of the
// database, which are as they should be.
func TestNoDescriptorsAreSaidToBeThat(t *testing.T) {
	if path := os.Getenv(scarceVar); path != "" {
		if err := openScarce(path); err != nil {
			t.Fatal(err)
		}
		os.Exit(0)
	}
	path := filepath.Join(t.TempDir(), "kimbap.db")
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoDescriptorsAreSaidToBeThat$")
	cmd.Env = append(os.Environ(), scarceVar+"="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text := string(out); strings.Contains(text, "chmod") || !strings.Contains(text, "no file descriptors are left") || !strings.Contains(text, "ulimit -n") {
		t.Errorf("it is told: %s", text)
	}
}

// openScarce opens a database in a process without descriptors, and prints what it is told.
func openScarce(path string) error {
	limit := syscall.Rlimit{Cur: 32, Max: 32}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		defer f.Close() //nolint:gocritic // they stay open until the end
	}
	db, err := sqlite.Open(context.Background(), sqlite.Options{Path: path})
	if err == nil {
		return db.Close()
	}
	e := runtime.AsError(err)
	fmt.Println(e.Msg, e.Hint)
	return nil
}
