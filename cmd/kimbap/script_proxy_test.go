package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// background is the proxy of one script.
type background struct {
	cmd   *exec.Cmd
	ended chan struct{} // its stderr is at its end

	mu   sync.Mutex
	said bytes.Buffer
}

// proxies are the running ones, by script.
var proxies sync.Map

var signals = map[string]os.Signal{"TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve PROGRAM...")
	}
	b := &background{cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	b.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "KIMBAP_HOME", "TMPDIR", "NO_COLOR", workerVar, namelessVar} {
		b.cmd.Env = append(b.cmd.Env, name+"="+ts.Getenv(name))
	}
	stderr, err := b.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(b.cmd.Start())
	ts.Defer(func() { _ = b.cmd.Process.Kill(); _ = b.cmd.Wait() })
	proxies.Store(ts, b)
	listening := make(chan string, 1)
	go b.hear(stderr, listening)
	select {
	case address := <-listening:
		ts.Setenv("PROXY", address)
	case <-b.ended:
		ts.Fatalf("it ended: %s", b.heard())
	case <-time.After(patience):
		ts.Fatalf("it does not listen")
	}
}

func (b *background) hear(stderr io.Reader, listening chan<- string) {
	defer close(b.ended)
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		b.mu.Lock()
		b.said.WriteString(lines.Text() + "\n")
		b.mu.Unlock()
		for _, says := range []string{"listening on http://", "serving on http://", "serving on https://"} {
			if address, ok := strings.CutPrefix(lines.Text(), says); ok {
				listening <- address
			}
		}
	}
}

func (b *background) heard() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.said.String()
}

func signalProxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 || signals[args[0]] == nil {
		ts.Fatalf("usage: signal TERM|HUP|INT|KILL")
	}
	ts.Check(running(ts).cmd.Process.Signal(signals[args[0]]))
}

func served(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: served SIGNAL CODE")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	signalProxy(ts, false, args[:1])
	b := running(ts)
	select {
	case <-b.ended:
	case <-time.After(patience):
		ts.Fatalf("it does not end: %s", b.heard())
	}
	_ = b.cmd.Wait()
	_, _ = io.WriteString(ts.Stderr(), b.heard())
	if code := b.cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("exit code %d, want %d: %s", code, want, b.heard())
	}
}

func running(ts *testscript.TestScript) *background {
	b, ok := proxies.Load(ts)
	if !ok {
		ts.Fatalf("nothing was started with serve")
	}
	return b.(*background)
}
