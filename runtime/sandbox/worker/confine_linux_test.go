package worker_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// probes are what the probe program can try, by what should become of it.
func probes(t *testing.T) map[string][]string {
	t.Helper()
	out, err := exec.Command(programs.probe, "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[want] = append(all[want], name)
	}
	if len(all["forbidden"]) < 60 || len(all["allowed"]) < 8 {
		t.Fatalf("the probes are missing: %v", all)
	}
	return all
}

// probe tries one thing in a process that has given up what a worker gives up.
func probe(t *testing.T, name string) (said string, status syscall.WaitStatus) {
	t.Helper()
	cmd := exec.Command(programs.probe, name)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// Each is tried by a process of its own, which says "confined" before and cannot
// say anything after.
func TestForbiddenSystemCallsEndTheProcess(t *testing.T) {
	for _, name := range probes(t)["forbidden"] {
		said, status := probe(t, name)
		if said != "confined seccomp\n" || !status.Signaled() || status.Signal() != syscall.SIGSYS {
			t.Errorf("%s: said %q and ended with %v, want the signal of a forbidden call", name, said, status)
		}
	}
}

func TestTheGoRuntimeWorksInAConfinedProcess(t *testing.T) {
	for _, name := range probes(t)["allowed"] {
		said, status := probe(t, name)
		if said != "confined seccomp\nworked\n" || status.ExitStatus() != 0 || status.Signaled() {
			t.Errorf("%s: said %q and ended with %v", name, said, status)
		}
	}
}

func TestAForbiddenCallOfAWorkerIsAViolation(t *testing.T) {
	p := start(t, worker.Settings{})
	_, err := run(t, p, "open")
	if e := end(p); !errors.Is(err, worker.ErrEnded) || e.Kind != frame.KindInterrupted || !e.Violation {
		t.Errorf("a worker that opened a file: %v, %+v", err, e)
	}
}

func TestTheKernelHasTheWorkersLimits(t *testing.T) {
	p := start(t, worker.Settings{CPU: 7 * time.Second, Heap: 200 << 20})
	if got := p.Level(); got != frame.LevelSeccomp {
		t.Fatalf("level %q", got)
	}
	limits := read(t, p, "limits")
	for name, want := range map[string]int64{
		"Max cpu time": 7, "Max file size": 0, "Max data size": 464 << 20, "Max address space": 464<<20 + 4<<30, "Max core file size": 0,
		"Max open files": 16, "Max locked memory": 0, "Max msgqueue size": 0,
	} {
		fields := strings.Fields(strings.TrimPrefix(line(limits, name), name))
		if len(fields) < 2 || fields[0] != fields[1] || fields[0] != strconv.FormatInt(want, 10) {
			t.Errorf("%s is %q, want %d", name, fields, want)
		}
	}
	status := read(t, p, "status")
	for name, want := range map[string]string{"NoNewPrivs:": "1", "Seccomp:": "2", "Seccomp_filters:": "1"} {
		if got := strings.TrimSpace(strings.TrimPrefix(line(status, name), name)); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
	if stat := read(t, p, "stat"); !strings.Contains(stat, fmt.Sprintf(" %d %d ", os.Getpid(), p.Pid())) {
		t.Errorf("its parent and process group are not ours and its own: %s", stat)
	}
}

// Every thread, not only the one that installed it.
func TestAllThreadsAreConfined(t *testing.T) {
	p := start(t, worker.Settings{})
	if err := p.Ready(); err != nil {
		t.Fatal(err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.Pid()))
	if err != nil || len(threads) < 3 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(line(string(text), "Seccomp:")) != "Seccomp:\t2" {
			t.Errorf("%s: %s, %v", name, line(string(text), "Seccomp:"), err)
		}
	}
}

func read(t *testing.T, p *worker.Process, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Pid(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func line(text, prefix string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, prefix) {
			return l
		}
	}
	return ""
}

// A descriptor that somebody left open for all programs: the reader sees the end of
// the pipe when we close our end, although the worker lives.
func TestAWorkerInheritsNoOpenFile(t *testing.T) {
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil { // without close-on-exec
		t.Fatal(err)
	}
	reader := os.NewFile(uintptr(ends[0]), "reader")
	defer func() { _ = reader.Close() }()
	p := start(t, worker.Settings{})
	if err := p.Ready(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Close(ends[1]); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { _, err := reader.Read(make([]byte, 1)); ended <- err }()
	select {
	case err := <-ended:
		if err != io.EOF {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the worker holds a pipe that was never its own")
		p.Kill()
		<-ended
	}
}

func TestAKilledWorkerIsReportedAtOnce(t *testing.T) {
	for _, source := range []string{"spin", "wait"} {
		p := start(t, worker.Settings{})
		ended := make(chan error)
		go func() { _, err := run(t, p, source); ended <- err }()
		if err := p.Ready(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if e := p.Wait(); !errors.Is(err, worker.ErrEnded) && !errors.Is(err, worker.ErrStart) || e.Kind != frame.KindInterrupted || e.Violation ||
				!strings.Contains(e.Message, "no more memory to give (exec.heap") { // so ends whom the kernel chooses in a container without memory
				t.Errorf("%s: %v, %+v", source, err, e)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: nobody noticed", source)
		}
	}
}

// The kernel ends it, although its pipe does not end: somebody else holds that.
func TestAWorkerDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVar+"="+programs.puppet, holderVar+"=/bin/cat")
	hold, err := parent.StdinPipe() // open until the end of the test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Close() }()
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	parent.Stderr = os.Stderr
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	pid, _ := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || pid <= 1 || !alive(pid) {
		_ = parent.Process.Kill()
		t.Fatalf("no worker: %q, %v", text, err)
	}
	_ = parent.Process.Kill()
	_, _ = parent.Process.Wait()
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the worker of a killed parent goes on")
		}
	}
}

// Where the kernel does not, the end of the pipe does, also while the script runs.
func TestAWorkerEndsWithItsPipe(t *testing.T) {
	for _, source := range []string{"spin", "wait"} {
		p := start(t, worker.Settings{})
		p.Limit(time.Minute)
		if err := p.Send(&frame.ToWorker{Check: &frame.Check{Source: source}}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Recv(); err != nil {
			t.Fatal(err)
		}
		if err := p.Send(&frame.ToWorker{Run: &frame.Run{Limits: limits}}); err != nil {
			t.Fatal(err)
		}
		if err := p.In().Close(); err != nil {
			t.Fatal(err)
		}
		if m, err := p.Recv(); !errors.Is(err, worker.ErrEnded) {
			t.Errorf("%s: got %+v, %v, want its end", source, m, err)
		}
		if e := p.Wait(); e.Kind != frame.KindInterrupted {
			t.Errorf("%s: ended as %+v", source, e)
		}
	}
}

// What may not be dumped belongs to root, whoever runs it: nobody else may trace it
// or look into its memory.
func TestAWorkersMemoryIsNobodysToRead(t *testing.T) {
	program, err := os.Open(programs.probe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Close() }()
	cmd := exec.Command("/proc/self/fd/3", "waiting") // whoever it runs as need not find the way
	cmd.ExtraFiles, cmd.Env = []*os.File{program}, []string{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
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
	text, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || text != "confined seccomp\n" {
		t.Errorf("it said %q, %v", text, err)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", cmd.Process.Pid))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Errorf("its memory belongs to %+v, %v, want root", info, err)
	}
	_ = in.Close()
	_ = cmd.Wait()
}

// alive reports whether a process runs; one that nobody has reaped yet does not.
func alive(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(line(string(text), "State:"), "Z")
}
