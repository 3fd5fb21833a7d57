package netns

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// A program may bind a socket by any bytes but zero, and relative to its working
// folder; the covering process is told the same.
func TestHostSocketsAreFoundAsTheyAreNamed(t *testing.T) {
	dir, err := os.MkdirTemp("", "kimbap-*") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Chdir(dir)
	if dir, err = os.Getwd(); err != nil {
		t.Fatal(err)
	}
	names := []string{"plain", "latin-\xe9", "two\nlines", "end\n", "a blank /and", "./relative"}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if name == "a blank /and" {
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		bound := path
		if name == "./relative" {
			bound = name
		}
		ln, err := net.Listen("unix", bound)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
	}
	found, err := HostSockets()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(Furniture{Sockets: found})
	if err != nil {
		t.Fatal(err)
	}
	var told Furniture
	if err := json.Unmarshal(data, &told); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !slices.Contains(told.Sockets, filepath.Join(dir, name)) {
			t.Errorf("%q is not among them", name)
		}
	}
}

// Sockets that come and go must not hide one that stays, nor must the table of another network.
func TestHostSocketsAreFoundAmongThoseThatGo(t *testing.T) {
	elsewhere := exec.Command("sleep", "600")
	elsewhere.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := elsewhere.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = elsewhere.Process.Kill(); _ = elsewhere.Wait() })
	dir, err := os.MkdirTemp("", "kimbap-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var stay []string
	for i := range 100 {
		path := filepath.Join(dir, strconv.Itoa(i))
		ln, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ln.Close() })
		stay = append(stay, path)
	}
	var stop atomic.Bool
	var churn sync.WaitGroup
	churn.Go(func() {
		for !stop.Load() {
			var pairs [400]int
			for i := 0; i < len(pairs); i += 2 {
				pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
				if err != nil {
					t.Error(err)
					return
				}
				pairs[i], pairs[i+1] = pair[0], pair[1]
			}
			for _, fd := range pairs {
				_ = syscall.Close(fd)
			}
		}
	})
	missed := 0
	for range 200 {
		found, err := HostSockets()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range stay {
			if !slices.Contains(found, path) {
				missed++
			}
		}
	}
	stop.Store(true)
	churn.Wait()
	if missed > 0 {
		t.Errorf("%d of %d were passed over", missed, 200*len(stay))
	}
}

func TestWhatIsKeptOfRunIsNotTakenForCleared(t *testing.T) {
	for path, want := range map[string]bool{
		"/run/user/1/bus": true, "/var/run/docker.sock": true, "/run/mediator/s": true,
		"/run/media/disk/s": false, "/var/run/media/disk/s": false, "/run": false, "/tmp/s": false,
	} {
		if got := cleared(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
