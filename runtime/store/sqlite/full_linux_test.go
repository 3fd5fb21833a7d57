package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/store/sqlite"
)

// fullVar holds the folder on a disk of its own that the process of this test fills.
const fullVar = "KIMBAP_TEST_FULL"

// A disk that is full before a new database is complete leaves none, nor anything else in its
// place: what was left of one was damaged for ever, and half of the log filled the disk more.
func TestADiskThatIsFullLeavesNoHalfDatabase(t *testing.T) {
	if dir := os.Getenv(fullVar); dir != "" {
		if err := beginOnFull(dir); err != nil {
			t.Fatal(err)
		}
		return
	}
	// A mount namespace of its own: nothing of it is left behind.
	cmd := exec.CommandContext(t.Context(), "unshare", "-Urm", "sh", "-ec", `mount -t tmpfs -o size=2m disk "$1"; exec "$0" "-test.run=^$2\$" -test.v`, os.Args[0], t.TempDir(), t.Name())
	cmd.Env = append(os.Environ(), fullVar+"="+cmd.Args[6])
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// beginOnFull makes databases on a disk that has room for ever more of one.
func beginOnFull(dir string) error {
	ctx, refused := context.Background(), 0
	for room := int64(0); ; room += 24 << 10 {
		home := filepath.Join(dir, fmt.Sprint("home", room))
		fill := filepath.Join(dir, "fill")
		if err := errors.Join(os.Mkdir(home, 0o700), leave(dir, fill, room)); err != nil {
			return err
		}
		path := filepath.Join(home, "kimbap.db")
		db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Create: true})
		switch {
		case err == nil && refused == 0:
			return errors.New("nothing was refused: the disk was not full")
		case err == nil:
			return db.Close()
		}
		refused++
		if e := runtime.AsError(err); !strings.Contains(e.Msg, "full") || !strings.Contains(e.Hint, "make room") {
			return fmt.Errorf("%d bytes left: %q, %q (%v)", room, e.Msg, e.Hint, err)
		}
		if halves, err := filepath.Glob(path + ".new-*"); len(halves) > 0 || err != nil {
			return fmt.Errorf("%d bytes left: %v are there yet (%v)", room, halves, err)
		}
		if err := os.Remove(fill); err != nil {
			return err
		}
		if err := isWell(ctx, path); err != nil {
			return fmt.Errorf("%d bytes left, and then more room: %w", room, err)
		}
		if err := os.RemoveAll(home); err != nil {
			return err
		}
	}
}

// leave fills the disk but for so many bytes.
func leave(dir, fill string, room int64) error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return err
	}
	return os.WriteFile(fill, make([]byte, int64(disk.Bavail)*disk.Bsize-room), 0o600)
}

// isWell opens a database that may have to be made, and checks all of it.
func isWell(ctx context.Context, path string) error {
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Create: true})
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	found, err := sqlite.Inspect(ctx, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return found.Damage()
}
