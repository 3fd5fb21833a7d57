package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// reach prints which of the files and sockets in its arguments can be used: "SOCKET..., FILE...".
const reach = `import os, socket, sys
for path in sys.argv[1:]:
    try:
        if path.endswith("socket"): # whose name has a bound
            os.chdir(os.path.dirname(path))
            socket.socket(socket.AF_UNIX).connect("socket")
        else: os.close(os.open(path, os.O_WRONLY))
        print("open:", path)
    except OSError: pass
print("end")`

// What is closed is closed at every place where its file system is mounted, as in a chroot.
func TestIsolationHoldsWhatShowsTwice(t *testing.T) {
	needProgram(t, installed("unshare", "mount", "setpriv"))
	isolated(t, func(t *testing.T, j jailed) {
		b, second := newBystander(t), t.TempDir()
		for _, dir := range []string{"files", "run", "part", "proc", "part-of-proc", "dev"} {
			check(t, os.Mkdir(filepath.Join(second, dir), 0o755))
		}
		check(t, os.Chmod(second, 0o755))
		only, media := filepath.Join(b.folder, "only"), filepath.Join("/run/media", filepath.Base(b.folder), "mixed")
		for _, dir := range []string{only, media} {
			check(t, os.MkdirAll(dir, 0o755))
			ln, err := net.Listen("unix", filepath.Join(dir, "socket"))
			check(t, err)
			t.Cleanup(func() { _ = ln.Close() })
			check(t, os.Chmod(filepath.Join(dir, "socket"), 0o777))
		}
		t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(media)) })
		check(t, os.WriteFile(filepath.Join(media, "file"), nil, 0o666))
		check(t, os.Chmod(filepath.Join(media, "file"), 0o666))
		const mounts = `cd "$1" && mount --bind "$2" files && mount --rbind /run run && mount --bind /run/kimbap-test part &&
			mount -t proc proc proc && mount --bind /proc/sys/kernel part-of-proc &&
			mknod -m 666 any c 1 3 && mount --bind any /dev/kmsg && mount --rbind /dev dev && rm any || exit 9
			id=$3; shift 3; cd "$HOME"; exec setpriv --reuid "$id" --regid "$id" --clear-groups "$@"`
		at := func(rest ...string) string { return filepath.Join(append([]string{second}, rest...)...) }
		kept := at("run/media", filepath.Base(b.folder), "mixed")
		ways := []string{
			at("files/only/socket"), at("files/socket"), at("run/kimbap-test/socket"), at("part/socket"), filepath.Join(kept, "socket"),
			"/dev/kmsg", at("dev/kmsg"),
		}
		if j.uid == 0 {
			ways = append(ways, at("proc/sys/kernel/core_pattern"), at("part-of-proc/core_pattern"))
		}
		needed := []string{filepath.Join(media, "file"), filepath.Join(kept, "file"), at("dev/null")}
		tries := append(append([]string{"/usr/bin/python3", "-c", reach}, ways...), needed...)
		run := func(how string) string {
			cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", mounts, "sh", second, b.folder, strconv.Itoa(j.uid)}, j.run(how, tries...)...)...)
			var stdout, stderr bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = append(j.by, "HOME="+j.user), &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Errorf("%s: %v\n%s\n%s", how, err, stdout.String(), stderr.String())
			}
			return stdout.String()
		}
		if open := run("--no-cover"); open != "open: "+strings.Join(append(ways, needed...), "\nopen: ")+"\nend\n" {
			t.Errorf("not isolated, only these are found: the attempts prove nothing\n%s", open)
		}
		if left := run("--isolate"); left != "open: "+strings.Join(needed, "\nopen: ")+"\nend\n" {
			t.Errorf("isolated, these are open, not what is needed alone\n%s", left)
		}
	})
}
