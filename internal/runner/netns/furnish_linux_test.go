package netns

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
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
