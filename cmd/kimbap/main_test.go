package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kimbap-run/kimbap/internal/app"
)

// TestMain makes this binary also the programs that the tests start: kimbap
// itself, and a client. As root on Linux all tests run in a network of their
// own, see namespace_linux_test.go.
func TestMain(m *testing.M) {
	stayOnFirstThread()
	programs := map[string]func(){"kimbap": kimbap, "goclient": goclient}
	benchmark := os.Getenv("KIMBAP_BIN") != "" || os.Getenv("KIMBAP_BENCH") != ""
	if programs[base(os.Args[0])] == nil && !benchmark {
		enterNamespace()
	}
	testscript.Main(tidy{m}, programs)
}

// workerVar names the kimbap that runs scripts in tests: one without cgo, whatever
// the test itself is built with.
const workerVar = "KIMBAP_TEST_WORKER"

// namelessVar has kimbap take every peer of a TCP connection for an unknown one, as
// where the kernel does not tell.
const namelessVar = "KIMBAP_TEST_NAMELESS"

// kimbap is main, with that program for its scripts.
func kimbap() {
	if status, is := app.Worker(os.Args[1:], os.Stdin, os.Stdout); is {
		os.Exit(status)
	}
	log.SetOutput(io.Discard)
	c := &cli{executable: os.Getenv(workerVar), nameless: os.Getenv(namelessVar) != ""}
	c.leave(run(c))
}

// workerBuilt is that program's file, built when the first test asks for it.
var workerBuilt = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kimbap-worker-*")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(dir, "kimbap"), ".") // half the link
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build a kimbap for scripts: %w\n%s", err, out)
	}
	file := filepath.Join(dir, "kimbap")
	return file, os.Setenv(workerVar, file)
})

// tidy removes what the tests have built.
type tidy struct{ *testing.M }

func (t tidy) Run() int {
	code := t.M.Run()
	if file := os.Getenv(workerVar); file != "" {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	return code
}

// namespaceVar marks the test process that runs in the network of its own.
const namespaceVar = "KIMBAP_TEST_NAMESPACE"

// leaveNamespaceOut says, so that nobody overlooks it, that the tests with real
// clients will not run. On a machine that gates changes it is a failure.
func leaveNamespaceOut(why string) {
	fmt.Fprintf(os.Stderr, "\n*** THE TESTS WITH REAL CLIENTS ARE LEFT OUT: %s\n*** Run them with: sudo make test\n\n", why)
	if os.Getenv("CI") == "true" {
		os.Exit(1)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
