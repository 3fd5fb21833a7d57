package home_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kimbap-run/kimbap/internal/home"
	"github.com/kimbap-run/kimbap/internal/system"
)

// childVar makes this program a process that holds something: what it is, and where.
const childVar = "KIMBAP_TEST_HOLDER"

func TestMain(m *testing.M) {
	what, dir, child := strings.Cut(os.Getenv(childVar), " ")
	switch {
	case !child:
		os.Exit(m.Run())
	case what == "file": // a process that has no number here
		f, err := os.OpenFile(dir, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = system.TryLock(f)
		}
		fmt.Println("holds", err)
	case what == "parent": // one with a child that outlives it
		self := home.Folder{Dir: dir}.Self()
		fmt.Println(self.Name())
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stdin, cmd.Stdout = append(os.Environ(), childVar+"=waits "), os.Stdin, os.Stdout
		fmt.Println(cmd.Start())
	default:
		fmt.Println("waits")
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test ends, or kills it
}

// child starts such a process, and returns it with what it says first, line by line.
func child(t *testing.T, what, dir string) (kill func(), line func() string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+what+" "+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	kill = sync.OnceFunc(func() { _ = cmd.Process.Kill(); _, _ = cmd.Process.Wait() })
	t.Cleanup(func() { kill(); _ = in.Close(); _, _ = io.Copy(io.Discard, lines) })
	return kill, func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(text)
	}
}

func states(t *testing.T) home.Folder {
	t.Helper()
	f := home.Folder{Dir: filepath.Join(t.TempDir(), "a[1]")} // which is no pattern
	if err := os.MkdirAll(f.State(), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

func files(t *testing.T, f home.Folder) (names []string) {
	t.Helper()
	list, err := os.ReadDir(f.State())
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

// A process that has no number here, as one of another container, lives while it has the
// lock. Its file goes when somebody finds it dead.
func TestAHolderLivesAsLongAsItsLock(t *testing.T) {
	f := states(t)
	const name = "1073741824:77:SOMEWHEREELSE"
	file := filepath.Join(f.State(), "process-1073741824-77-SOMEWHEREELSE.lock")
	if home.Alive(f.State(), name) {
		t.Error("nobody was ever called that")
	}
	kill, line := child(t, "file", file)
	if said := line(); said != "holds <nil>" {
		t.Fatal(said)
	}
	for range 2 {
		if !home.Alive(f.State(), name) {
			t.Fatalf("it lives: %v", files(t, f))
		}
	}
	kill()
	for range 2 {
		if home.Alive(f.State(), name) {
			t.Error("it was killed")
		}
		if left := files(t, f); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// What a process started does not keep it alive.
func TestAHolderDiesBeforeItsChildren(t *testing.T) {
	f := states(t)
	kill, line := child(t, "parent", f.Dir)
	name := line()
	if said := line() + " " + line(); said != "<nil> waits" && said != "waits <nil>" {
		t.Fatal(said)
	}
	if !home.Alive(f.State(), name) {
		t.Errorf("%s lives: %v", name, files(t, f))
	}
	kill()
	if home.Alive(f.State(), name) {
		t.Errorf("%s was killed, and what it started keeps it alive", name)
	}
}

// Many look at the same moment, at one that lives and at one that died: all see the same.
func TestManyLookAtOnce(t *testing.T) {
	f := states(t)
	self := f.Self()
	defer self.End()
	living := self.Name()
	const dead = "1:2:DEAD"
	if err := os.WriteFile(filepath.Join(f.State(), "process-1-2-DEAD.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if !home.Alive(f.State(), living) {
					t.Error("this process is taken for dead")
				}
				if home.Alive(f.State(), dead) {
					t.Error("a dead one is taken to be alive")
				}
			}
		})
	}
	all.Wait()
}

// Processes that begin while others clear away are not taken for dead, and each has a
// name of its own.
func TestBeginningsAreNotClearedAway(t *testing.T) {
	f := states(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	names := map[string]bool{}
	for range 8 {
		all.Go(func() {
			for range 25 {
				self := f.Self()
				defer self.End()
				name := self.Name() // which looks at all that are there
				if !home.Alive(f.State(), name) || name != self.Name() {
					t.Errorf("%s is not alive", name)
				}
				mu.Lock()
				if names[name] {
					t.Errorf("%s twice", name)
				}
				names[name] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if left := files(t, f); len(left) > 0 {
		t.Errorf("all have ended, and %v is left", left)
	}
}

// Nothing is made for a process that holds nothing, and nothing is left of one that ended.
func TestAHolderMakesItsFileWhenItIsNamed(t *testing.T) {
	f := states(t)
	dead := filepath.Join(f.State(), "process-1-2-DEAD.lock")
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unnamed, self := f.Self(), f.Self()
	unnamed.End()
	if name := unnamed.Name(); name != "" || len(files(t, f)) != 1 {
		t.Errorf("it has ended, and is called %q: %v", name, files(t, f))
	}
	name := self.Name()
	if left := files(t, f); len(left) != 1 || left[0] == filepath.Base(dead) {
		t.Errorf("there are %v", left)
	}
	if !strings.HasPrefix(name, home.Holder(os.Getpid())+":") {
		t.Errorf("this process is called %s", name)
	}
	self.End()
	self.End()
	if left := files(t, f); len(left) > 0 || home.Alive(f.State(), name) {
		t.Errorf("it has ended: %v", left)
	}
}

// Where no lock can be had a process is named, and judged, by its number as before.
func TestWithoutALockTheNumberCounts(t *testing.T) {
	f := home.Folder{Dir: t.TempDir()} // without a folder of states
	self := f.Self()
	defer self.End()
	if name := self.Name(); name != home.Holder(os.Getpid()) || !home.Alive(f.State(), name) {
		t.Errorf("this process is called %s", name)
	}
}

// Of whom it cannot be found out whether it lives, nothing is taken away; and a name leads
// out of the folder nowhere.
func TestNoAnswerIsNotDeath(t *testing.T) {
	f := states(t)
	loop := filepath.Join(f.State(), "process-1-2-LOOP.lock")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	if !home.Alive(f.State(), "1:2:LOOP") {
		t.Error("it cannot be asked, and is taken for dead")
	}
	outside := filepath.Join(f.Dir, "precious.lock")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if home.Alive(f.State(), "1:2:/../../precious") {
		t.Error("a path is taken for a name")
	}
	if text, err := os.ReadFile(outside); err != nil || !bytes.Equal(text, []byte("x")) {
		t.Errorf("%q, %v", text, err)
	}
}
