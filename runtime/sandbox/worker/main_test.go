package worker_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// The programs that the tests start. They are built without cgo, whatever the test
// itself is built with: a worker with it is refused.
var programs struct{ puppet, probe, kimbap string }

// parentVar makes the test binary a parent of one worker of this program.
const parentVar = "KIMBAP_TEST_PARENT"

// holderVar has it start this program too, with its end of the worker's pipe.
const holderVar = "KIMBAP_TEST_HOLDER"

func TestMain(m *testing.M) {
	if executable := os.Getenv(parentVar); executable != "" {
		parentOfAWorker(executable)
		return
	}
	dir, err := os.MkdirTemp("", "worker")
	if err != nil {
		fail(err)
	}
	for program, path := range map[string]*string{
		"./testdata/puppet": &programs.puppet, "./testdata/probe": &programs.probe, "../../../cmd/kimbap": &programs.kimbap,
	} {
		*path = filepath.Join(dir, filepath.Base(program))
		build := exec.Command("go", "build", "-ldflags", "-s -w", "-o", *path, program) // half the link
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fail(fmt.Errorf("build %s: %w\n%s", program, err, out))
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fail(err)
		}
	}
	os.Exit(code)
}

// TestMain runs this when the test starts itself: a parent with a worker that spins.
// Another process holds the parent's end of the worker's pipe, so that the pipe does
// not end with the parent; it ends with our standard input.
func parentOfAWorker(executable string) {
	p, err := worker.Start(worker.Options{Executable: executable})
	if err != nil {
		fail(err)
	}
	_ = p.Send(&frame.ToWorker{Check: &frame.Check{Source: "spin"}})
	if _, err := p.Recv(); err != nil {
		fail(err)
	}
	if err := p.Send(&frame.ToWorker{Run: &frame.Run{Limits: limits}}); err != nil {
		fail(err)
	}
	if holder := os.Getenv(holderVar); holder != "" {
		cmd := exec.Command(holder)
		cmd.Stdin, cmd.ExtraFiles = os.Stdin, []*os.File{p.In()}
		if err := cmd.Start(); err != nil {
			fail(err)
		}
	}
	fmt.Println(p.Pid())
	p.Wait()
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
