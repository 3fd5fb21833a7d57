package file_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A required file that is new has a line only once its folder was synced too: after a power
// cut there might be no file of that name otherwise. strace makes that sync fail.
func TestANewFileIsThereWhenItsFolderIs(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("LEFT OUT: %v (make setup installs it)", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	for _, name := range []string{dir, t.TempDir()} { // in this order: the file is new as long as it fails
		fails := name == dir
		cmd := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-P", name, "-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO", self)
		cmd.Env = append(os.Environ(), "KIMBAP_FILE_CHILD="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		if (line == "") != fails {
			t.Errorf("the folder fails: %t; written: %q", fails, line)
		}
		_ = out.Close() // which ends the child
		_ = cmd.Wait()
		if info, err := os.Stat(path); fails && (err != nil || info.Size() > 0) {
			t.Errorf("it is not as it was: %v %v", info, err)
		}
	}
}
