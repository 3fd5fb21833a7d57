package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// An isolated program can neither limit nor end another process of the user, as a proxy is
// one; those that it starts itself it can.
func TestIsolatedProgramsLeaveOthersAlone(t *testing.T) {
	needProgram(t, installed("prlimit"))
	const script = `(: >>"$1/cgroup.kill") 2>/dev/null && echo grouped; prlimit --pid $0 --nofile=2000:2000 2>/dev/null && echo limited
		kill -0 $0 2>/dev/null && echo signalled; kill -CONT $0 2>/dev/null && echo continued
		sleep 600 & kill $!; wait $!; echo $?; (ulimit -n 20 && ulimit -n); prlimit --nofile=30:30 sh -c 'ulimit -n'
		prlimit --pid $$ --nofile >/dev/null && echo asked; kill -0 $PPID && echo above
		d=$(mktemp -d); mkdir $d/a $d/b; touch $d/a/f; mv $d/a/f $d/b && ln $d/b/f $d/a/f && unshare -Urm mount -t tmpfs none $d/a && echo files; rm -r $d`
	const own = "143\n20\n30\nasked\nabove\nfiles\n"
	isolated(t, func(t *testing.T, j jailed) {
		other := exec.Command("sleep", "600")
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(j.uid), Gid: uint32(j.uid)}, Pdeathsig: syscall.SIGKILL}
		check(t, other.Start())
		t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
		groups := t.TempDir()
		check(t, syscall.Mount("kimbap-test", groups, "cgroup2", 0, ""))
		t.Cleanup(func() { _ = syscall.Unmount(groups, syscall.MNT_DETACH) })
		group := filepath.Join(groups, fmt.Sprint("kimbap-test-", other.Process.Pid)) // as a systemd gives its user one
		check(t, os.Mkdir(group, 0o755))
		t.Cleanup(func() { _ = os.Remove(group) })
		check(t, os.Chown(filepath.Join(group, "cgroup.kill"), j.uid, j.uid))
		check(t, os.Chmod(groups, 0o755))
		check(t, os.Chmod(filepath.Dir(groups), 0o755))
		run := func(how string) result {
			return j.exec(t, j.by, "", j.run(how, "sh", "-c", script, fmt.Sprint(other.Process.Pid), group)...)
		}
		if open := run("--no-cover"); open.stdout != "grouped\nlimited\nsignalled\ncontinued\n"+own {
			t.Errorf("not isolated, the attempts prove nothing: %+v", open)
		}
		want := own
		if mends, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 2); int(mends)&2 == 0 || int(mends) < 0 { // an older kernel
			want = "signalled\ncontinued\n" + own
		}
		if closed := run("--isolate"); closed.stdout != want {
			t.Errorf("isolated, %+v, want %q", closed, want)
		}
	})
}
