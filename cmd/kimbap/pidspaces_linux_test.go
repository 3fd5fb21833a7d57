package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// first is a command over the same home that is the first process of its own: it does not
// see the others' numbers, as in a second container.
func (r *scriptRig) first(args ...string) *exec.Cmd {
	r.t.Helper()
	path, err := exec.LookPath("unshare")
	check(r.t, err)
	cmd := r.command(args...)
	cmd.Path, cmd.Args = path, append([]string{"unshare", "-pf", "--mount-proc", "--kill-child"}, cmd.Args...)
	return cmd
}

// elsewhere runs such a command, and returns what it says and how it ended.
func (r *scriptRig) elsewhere(args ...string) result { return r.outcome(r.first(args...)) }

// here runs a command among the processes of the test.
func (r *scriptRig) here(args ...string) result { return r.outcome(r.command(args...)) }

func (r *scriptRig) outcome(cmd *exec.Cmd) result {
	r.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// newTwoSpaces is a rig for tests whose processes do not see each other's numbers.
func newTwoSpaces(t *testing.T) *scriptRig {
	t.Helper()
	needNamespace(t)
	needProgram(t, installed("unshare"))
	return newScriptRig(t)
}

// states are the files in which running kimbaps say what they are.
func (r *scriptRig) states() []string {
	r.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.home, "state", "*"))
	check(r.t, err)
	return files
}

// A container of `docker compose run` sees the proxy of another one, and leaves its file
// alone; when the proxy was killed it sees that too, and clears away.
func TestAProxyIsSeenFromAnotherContainer(t *testing.T) {
	r := newTwoSpaces(t)
	r.serve()
	for _, at := range []func(...string) result{r.elsewhere, r.here, r.elsewhere} {
		if got := at("status", "--healthy"); got.code != 0 {
			t.Errorf("the proxy is not seen: exit code %d\n%s%s\n%v", got.code, got.stdout, got.stderr, r.states())
		}
	}
	r.kill()
	if got := r.elsewhere("status", "--healthy"); got.code != exitUnreachable {
		t.Errorf("the proxy was killed: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	for _, file := range r.states() {
		if name := filepath.Base(file); strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "process-") {
			t.Errorf("%s of the killed proxy is still there", name)
		}
	}
}

// Two proxies of two containers, each the first process of its own, are two. Here they have one
// number: this program, unlike the one that is shipped, does without an init.
func TestTheFirstProcessesOfTwoContainersAreTwo(t *testing.T) {
	r := newTwoSpaces(t)
	self, err := os.Executable()
	check(t, err)
	r.program = filepath.Join(r.dir, "kimbap")
	check(t, os.Symlink(self, r.program))
	for range 2 {
		cmd := r.first("proxy", "--listen", "127.0.0.1:0")
		check(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	var proxies []struct {
		PID    int
		Listen string
	}
	for end := time.Now().Add(deadline); len(proxies) != 2; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("two proxies run, and status says %+v\n%v", proxies, r.states())
		}
		check(t, json.Unmarshal([]byte(r.kimbap("", "status", "-o", "json", "--jq", ".proxies // []")), &proxies))
	}
	if proxies[0].PID != 1 || proxies[1].PID != 1 || proxies[0].Listen == proxies[1].Listen {
		t.Errorf("status says %+v", proxies)
	}
}

// A proxy of a container whose network is another one cannot be asked from here. That is
// no illness of the proxy that can be.
func TestAProxyOfAnotherNetworkDoesNotMakeThisOneIll(t *testing.T) {
	r := newTwoSpaces(t)
	r.serve()
	far := r.first("proxy", "--listen", "127.0.0.1:0")
	far.Args = append([]string{"unshare", "-n", "sh", "-c", `ip link set lo up && exec "$0" "$@"`}, far.Args...)
	check(t, far.Start())
	t.Cleanup(func() { _ = far.Process.Kill(); _ = far.Wait() })
	for end := time.Now().Add(deadline); r.kimbap("", "status", "-o", "json", "--jq", ".proxies | length") != "2"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("two proxies run: %v", r.states())
		}
	}
	if got := r.here("status", "--healthy"); got.code != 0 {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	r.kill()
	if got := r.here("status", "--healthy"); got.code != exitUnreachable || !strings.Contains(got.stderr, "is not well") {
		t.Errorf("only the other one runs: exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// What a person allowed, and another process executes, is no business of a container that
// looks at the list meanwhile. When the process was killed nobody knows how it went.
func TestAnExecutionIsSeenFromAnotherContainer(t *testing.T) {
	r := newTwoSpaces(t)
	r.api.hold(true)
	call := r.command("call", "notes.delete-note", "--id", "held")
	var said bytes.Buffer
	call.Stdout, call.Stderr = &said, &said
	check(t, call.Start())
	t.Cleanup(func() { _ = call.Process.Kill(); _ = call.Wait() })
	var open []struct{ ID string }
	for end := time.Now().Add(deadline); len(open) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("nobody is asked")
		}
		check(t, json.Unmarshal([]byte(r.kimbap("", "approve", "list", "-o", "json")), &open))
	}
	r.kimbap("", "approve", "accept", open[0].ID)
	select {
	case <-r.api.arrived:
	case <-time.After(deadline):
		t.Fatalf("the call never came: %s", said.String())
	}
	state := func(list func(...string) result) (is string) {
		t.Helper()
		got := list("approve", "list", "--all", "-o", "json", "--jq", ".[0].state")
		check(t, json.Unmarshal([]byte(got.stdout), &is))
		return is
	}
	for _, list := range []func(...string) result{r.elsewhere, r.here} {
		if is := state(list); is != "executing" {
			t.Errorf("it is being executed, and is said to be %s", is)
		}
	}
	check(t, call.Process.Kill())
	_ = call.Wait()
	if is := state(r.elsewhere); is != "unknown" {
		t.Errorf("its process was killed, and it is said to be %s", is)
	}
}

// A script that runs in one container is not taken from it by another one.
func TestAScriptIsNotTakenByAnotherContainer(t *testing.T) {
	r := newTwoSpaces(t)
	r.api.hold(true)
	r.serve()
	client := make(chan error, 1)
	go func() {
		_, err := r.ask("POST", "/v1/exec", map[string]any{"code": `
			await tools.notes.createNote({title: "rice"});
			return (await tools.notes.createNote({title: "held"})).did;`})
		client <- err
	}()
	select {
	case <-r.api.arrived:
	case <-time.After(deadline):
		t.Fatal("the call never came")
	}
	id := r.begun()
	r.kept("/v1/exec/" + id)
	if got := r.elsewhere("exec", "--resume", id); got.code == 0 || !strings.Contains(got.stdout+got.stderr, "another process goes on with") {
		t.Errorf("it runs, and resuming it ends with %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	r.saw(map[string]int{"POST /notes rice": 1, "POST /notes held": 1})
	r.kill()
	<-client
	r.api.hold(false)
	if got := r.elsewhere("exec", "--resume", id); strings.Contains(got.stdout+got.stderr, "another process goes on with") || !strings.Contains(got.stdout+got.stderr, "may not be repeated") {
		t.Errorf("it was killed, and resuming it ends with %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	r.saw(map[string]int{"POST /notes rice": 1, "POST /notes held": 1})
}
