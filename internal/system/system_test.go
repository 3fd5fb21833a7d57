package system_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// A folder that was made private is nobody else's, nor is what is made in it.
func TestAPrivateFolderKeepsOthersOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "between", "home")
	if err := system.Private(dir); err != nil {
		t.Fatal(err)
	}
	if how := exposed(t, dir); how != "" {
		t.Errorf("the folder: %s", how)
	}
	open := filepath.Join(dir, "a file")
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	runtimetest.Open(t, open)
	if how := exposed(t, open); how == "" {
		t.Error("a file that others may read is taken to be private")
	}
	if fix := system.Repair(open, false); !strings.Contains(fix, open) {
		t.Errorf("the command does not name the file: %s", fix)
	}
}

func exposed(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return system.Exposed(path, info)
}

// Any number can ask at once whether somebody has the lock, and only that keeps it from
// being taken.
func TestALockIsAskedAboutByMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var files []*os.File
	for range 3 {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		files = append(files, f)
	}
	if err := system.TryLock(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := system.TryShare(files[1]); !errors.Is(err, system.ErrTaken) {
		t.Errorf("somebody has it, and who asks got %v", err)
	}
	if err := system.Unlock(files[0]); err != nil {
		t.Fatal(err)
	}
	for _, f := range files[1:] {
		if err := system.TryShare(f); err != nil {
			t.Errorf("nobody has it, and who asks got %v", err)
		}
	}
	if err := system.TryLock(files[0]); !errors.Is(err, system.ErrTaken) {
		t.Errorf("two ask, and who wants it got %v", err)
	}
}

// One has the lock at a time; meanwhile all can read the file, and its holder write it.
func TestALockedFileStaysReadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	if err := system.TryLock(first); err != nil {
		t.Fatal(err)
	}
	if err := system.TryLock(second); !errors.Is(err, system.ErrTaken) {
		t.Errorf("the second got %v", err)
	}
	if _, err := first.Write([]byte("56789")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "56789" {
		t.Errorf("read %q, %v", text, err)
	}
	if err := system.Unlock(first); err != nil {
		t.Fatal(err)
	}
	if err := system.TryLock(second); err != nil {
		t.Errorf("the lock was given up, and the second got %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := system.TryLock(first); err != nil {
		t.Errorf("its holder closed the file, and the first got %v", err)
	}
}

func TestNamesInAFolderAreMadeDurable(t *testing.T) {
	if err := system.SyncFolder(t.TempDir()); err != nil {
		t.Error(err)
	}
}

// The variables of a process are found by the names that kimbap writes, and so is the
// folder of its user.
func TestVariablesAreFoundByTheirNames(t *testing.T) {
	t.Setenv("Kimbap_Trial", "a=b")
	name := "Kimbap_Trial"
	if !system.NamesHaveCase {
		name = "KIMBAP_TRIAL"
	}
	if env := system.Environment(os.Environ()); !slices.Contains(env, name+"=a=b") {
		t.Errorf("%s is not in %q", name, env)
	}
	if system.UserDir(os.Getenv) == "" {
		t.Error("the user has no folder")
	}
}

// An address that is taken is told from one that cannot be.
func TestATakenAddressIsKnown(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if second, err := net.Listen("tcp", first.Addr().String()); err == nil {
		_ = second.Close()
		t.Error("two listen on one address")
	} else if !system.AddressTaken(err) {
		t.Errorf("it is not seen that the address is taken: %v", err)
	}
}

// A file takes the place of one that is just being read, and of one that is written at
// its end; who has the old one open keeps it.
func TestAFileThatIsOpenIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	log, err := system.OpenAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	if err := errors.Join(system.Append(log, []byte("old")), system.Rename(path, path+".1"), system.Append(log, []byte("er"))); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path + ".1"); err != nil || string(text) != "older" {
		t.Errorf("the file that was renamed holds %q, %v", text, err)
	}
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.WriteFile(path+".new", []byte("new"), 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = reader.Close() })
	if err := system.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "new" {
		t.Errorf("the file holds %q, %v", text, err)
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		text string
		mode os.FileMode
	}{{"one", 0o600}, {"another", 0o644}, {"", 0o600}} {
		if err := system.Replace(path, "file.new-*", []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(got) != c.text || runtime.GOOS != "windows" && info.Mode().Perm() != c.mode {
			t.Errorf("%q is %q, %v", c.text, got, info.Mode())
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder", "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := system.Replace(filepath.Join(dir, "folder"), "folder.new-*", []byte("x"), 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if err := system.Replace(filepath.Join(dir, "none", "file"), "file.new-*", []byte("x"), 0o600); err == nil {
		t.Error("a file of a folder that is not there was made")
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.new-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("what failed has left %v; %v", left, err)
	}
}
