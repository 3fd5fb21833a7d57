package apptest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// workerVar names the program that runs scripts to the processes that a test starts.
const workerVar = "KIMBAP_TEST_WORKER"

// built is that program, built when the first test asks for it: without cgo,
// whatever the test itself is built with.
var built = sync.OnceValues(func() (string, error) {
	if file := os.Getenv(workerVar); file != "" {
		return file, nil
	}
	dir, err := os.MkdirTemp("", "kimbap-worker-*")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "kimbap")
	build := exec.Command("go", "build", "-o", file, "github.com/kimbap-run/kimbap/cmd/kimbap")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a kimbap for scripts: %w\n%s", err, out)
	}
	return file, os.Setenv(workerVar, file)
})

// Worker returns a kimbap that runs scripts.
func Worker(t testing.TB) string {
	t.Helper()
	file, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// Tidy runs the tests and removes what was built for them.
type Tidy struct{ *testing.M }

// Run implements the part of [testing.M] that a TestMain calls.
func (t Tidy) Run() int {
	_, ours := os.LookupEnv(workerVar)
	code := t.M.Run()
	if file := os.Getenv(workerVar); file != "" && !ours {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	return code
}
