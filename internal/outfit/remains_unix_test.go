//go:build unix

package outfit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/runner"
	"github.com/kimbap-run/kimbap/internal/system"
)

func put(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func isThere(path string) bool { _, err := os.Lstat(path); return err == nil }

func made(t *testing.T) Folder {
	t.Helper()
	f, err := Run{}.NewFolder([]byte(root), nil)
	if err == nil {
		err = f.Settle(placeOf(f))
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A run that is killed removes nothing; the next one does, and leaves alone what lives.
func TestWhatADeadRunLeavesGoesWithTheNext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living, dead := made(t), made(t)
	defer living.Remove()
	put(t, filepath.Join(dead.Dir, "kimbap.sock"))
	put(t, filepath.Join(dead.Dir, "mcp.sock"))
	_ = dead.lock.Close() // as the end of the process does
	defer made(t).Remove()
	if isThere(dead.Dir) {
		t.Error("what a dead run has left is still there")
	}
	if !isThere(living.Place().Bundle) || !isThere(filepath.Join(living.Dir, lockFile)) {
		t.Error("the files of a run that lives are gone")
	}
}

// A program can move a folder that is covered from it, by one above, to where that of its run is,
// and would have it emptied by the end of the run.
func TestTheEndOfARunRemovesItsOwnFilesAlone(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f, work := made(t), t.TempDir()
	put(t, filepath.Join(work, "home/audit/00000001.jsonl"))
	put(t, filepath.Join(work, "ca.pem"))
	away := f.Dir + ".away"
	if err := os.Rename(f.Dir, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(work, f.Dir); err != nil {
		t.Fatal(err)
	}
	own := put(t, filepath.Join(away, "clients/of-the-program"))
	f.Remove()
	for _, path := range []string{filepath.Join(f.Dir, "home/audit/00000001.jsonl"), filepath.Join(f.Dir, "ca.pem"), own} {
		if !isThere(path) {
			t.Errorf("%s is gone", path)
		}
	}
	for _, name := range []string{"ca.pem", "bundle.pem", lockFile, "clients/trust.jks"} {
		if isThere(filepath.Join(away, name)) {
			t.Errorf("%s is left behind", name)
		}
	}
}

// Nobody ever writes into a pipe that has the place of a folder.
func TestAPipeDoesNotHoldUpTheEndOfARun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, dead := range []bool{false, true} {
		f := made(t)
		clients := filepath.Join(f.Dir, "clients")
		if err := os.RemoveAll(clients); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(clients, 0o600); err != nil {
			t.Fatal(err)
		}
		if f.Remove(); dead {
			f = made(t)
			_ = os.RemoveAll(filepath.Join(f.Dir, "clients"))
			_ = syscall.Mkfifo(filepath.Join(f.Dir, "clients"), 0o600)
			_ = f.lock.Close()
			sweep(filepath.Dir(f.Dir), time.Now())
		}
		if isThere(f.Dir) {
			t.Errorf("dead %v: the folder is left behind", dead)
		}
	}
}

// systemd-tmpfiles removes what is old, unless the folder is locked.
func TestTheFolderOfARunIsLockedWhileItLives(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	f := made(t)
	folder, err := os.Open(f.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	if err := system.TryLock(folder); !errors.Is(err, system.ErrTaken) {
		t.Errorf("of a run that lives: %v", err)
	}
	f.Remove()
	if err := system.TryLock(folder); err != nil {
		t.Errorf("at its end: %v", err)
	}
}

// However much others have in the folder, what is ours is found.
func TestWhatADeadRunLeavesGoesAmongOthers(t *testing.T) {
	above := t.TempDir()
	t.Setenv("TMPDIR", above)
	for i := range 2000 {
		if err := os.Symlink("nowhere", filepath.Join(above, fmt.Sprint("kimbap-run-", i))); err != nil {
			t.Fatal(err)
		}
	}
	dead := made(t)
	_ = dead.lock.Close()
	sweep(above, time.Now())
	if isThere(dead.Dir) {
		t.Error("what a dead run has left is still there")
	}
}

// What is found may have been put there to have kimbap remove something else.
func TestOnlyWhatKimbapHasLeftGoes(t *testing.T) {
	above := t.TempDir()
	at := func(name string) string { return filepath.Join(above, name) }
	old := time.Now().Add(-2 * unlocked)
	long := put(t, at("kimbap-run-old/"+lockFile+".new"))
	taken := put(t, at("kimbap-run-taken/ca.pem")) // it may live: what clears the folder above took its lock
	young := put(t, at("kimbap-run-young/ca.pem"))
	put(t, at("kimbap-run-moved/"+lockFile))
	home := put(t, at("kimbap-run-moved/home/master.key"))
	elsewhere := put(t, at("elsewhere/ca.pem"))
	put(t, at("elsewhere/"+lockFile))
	put(t, at("kimbap-run-inside/"+lockFile))
	put(t, at("kimbap-run-file"))
	for name, to := range map[string]string{"kimbap-run-link": "elsewhere", "kimbap-run-inside/clients": at("elsewhere")} {
		if err := os.Symlink(to, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, at("elsewhere/trust.jks"))
	for _, early := range []string{long, taken} {
		if err := os.Chtimes(filepath.Dir(early), old, old); err != nil {
			t.Fatal(err)
		}
	}
	sweep(above, time.Now())
	if isThere(filepath.Dir(long)) {
		t.Error("a folder whose run died early is still there")
	}
	for _, path := range []string{young, taken, home, elsewhere, at("elsewhere/trust.jks"), at("elsewhere/" + lockFile), at("kimbap-run-link"), at("kimbap-run-file")} {
		if !isThere(path) {
			t.Errorf("%s is gone", path)
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	above := b.TempDir()
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(above, fmt.Sprint(i)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		sweep(above, time.Now())
	}
}

func placeOf(f Folder) runner.Place {
	place := f.Place()
	place.Proxy = "http://127.0.0.1:1"
	return place
}
