package runner

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
)

const nobody = 65534

// eachUser runs a test as the user that tests, and again as one without
// privileges when that user is root.
func eachUser(t *testing.T, test func(t *testing.T)) {
	t.Run("self", test)
	if os.Getuid() != 0 {
		return
	}
	t.Run("nobody", func(t *testing.T) {
		dir := t.TempDir()
		for _, path := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
		top, _, _ := strings.Cut(t.Name(), "/")
		cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run=^"+top+"$/^self$")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "OUTSIDE=" + outside}
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+top+"/self")) {
			t.Errorf("as nobody: %v\n%s", err, out)
		}
	})
}

const (
	hidden  = "what-the-folder-hides"
	outside = "what-the-environment-of-the-parent-holds"
)

// attempts is every way that a program has to what is covered in $0; $1 is the
// process that covers it.
const attempts = `
	cat "$0/file"; ls "$0"; echo new >"$0/file"; rm -rf "$0"; mv "$0" "$0.moved"
	umount "$0"; umount -l "$0"; mount --bind / /mnt && cat "/mnt$0/file"
	unshare -Urm sh -c 'umount "$0"; cat "$0/file"' "$0"
	unshare -Urm sh -c 'umount -l "$0"; mount -t proc proc /proc; cat "$0/file"; cat /proc/1/root"$0/file"' "$0"
	unshare -Urm sh -c 'mount --bind "$(dirname "$0")" /mnt && cat "/mnt/$(basename "$0")/file"' "$0"
	for pid in $1 $PPID 1 /proc/[0-9]*; do pid=${pid#/proc/}
		cat "/proc/$pid/root$0/file" "/proc/$pid/cwd$0/file"
		nsenter -m -t "$pid" cat "$0/file"; nsenter -U -m -t "$pid" cat "$0/file"
	done
	for pid in $1; do cat /proc/$pid/environ && echo environ; dd if=/proc/$pid/mem bs=1 count=1 && echo mem; readlink /proc/$pid/fd/* && echo fd; cat /proc/$pid/fd/[3-9]; done
	echo end`

func TestCoverHidesAFolder(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder := secretFolder(t)
		// Without a cover the same program finds it, so the search is able to.
		if r := run(t, "-", nil, "sh", "-c", `cat "$0/file"`, folder); !strings.Contains(r.out, hidden) {
			t.Fatalf("not even uncovered: %v %s", r.err, r.out)
		}
		r := run(t, folder, nil, "sh", "-c", attempts, folder, strconv.Itoa(os.Getpid()))
		mustCover(t, r)
		if !strings.HasSuffix(r.out, "end\n") {
			t.Fatalf("the attempts did not run: %s", r.out)
		}
		for line := range strings.Lines(r.out) {
			switch line = strings.TrimSpace(line); {
			case strings.Contains(line, hidden), strings.Contains(line, outside), line == "environ", line == "mem", line == "fd":
				t.Errorf("the program got %q", line)
			}
		}
		if data, err := os.ReadFile(filepath.Join(folder, "file")); err != nil || string(data) != hidden {
			t.Errorf("the folder was changed: %q, %v", data, err)
		}
	})
}

// Who is started in the folder that is covered stands in the cover, not below it.
func TestCoverHidesTheWorkingFolder(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder := secretFolder(t)
		r := run(t, folder, func(o *Options) { o.Dir = folder }, "sh", "-c", "pwd; cat file ./file; ls -A .; cat /proc/self/cwd/file")
		mustCover(t, r)
		if strings.Contains(r.out, hidden) || !strings.HasPrefix(r.out, folder+"\n") {
			t.Errorf("the program got %q", r.out)
		}
		below := filepath.Join(folder, "below")
		if err := os.Mkdir(below, 0o700); err != nil {
			t.Fatal(err)
		}
		r = run(t, folder, func(o *Options) { o.Dir = below }, "sh", "-c", "cat ../file")
		var cannot *CannotStart
		if !errors.As(r.err, &cannot) || r.out != "" {
			t.Errorf("below it: %v, %q", r.err, r.out)
		}
	})
}

// A cover changes nothing else: the user, the working directory, other files,
// the exit code.
func TestCoverLeavesTheRestAlone(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder, work := secretFolder(t), t.TempDir()
		in := func(o *Options) { o.Dir = work }
		r := run(t, folder, in, "sh", "-c", "id -u; id -g; pwd; touch made; exit 42")
		mustCover(t, r)
		if want := fmt.Sprintf("%d\n%d\n%s\n", os.Getuid(), os.Getgid(), work); r.out != want || r.code != 42 {
			t.Errorf("%d, %q; want 42, %q", r.code, r.out, want)
		}
		info, err := os.Stat(filepath.Join(work, "made"))
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			t.Errorf("its file: %v %+v", err, info)
		}
		if r := run(t, folder, in, "sh", "-c", "kill -TERM $$"); r.code != 143 {
			t.Errorf("ended by TERM: %d, %v", r.code, r.err)
		}
		if mounts, err := os.ReadFile("/proc/self/mounts"); err != nil || strings.Contains(string(mounts), folder) {
			t.Errorf("the cover shows outside: %v", err)
		}
	})
}

// ssh refuses settings that belong to nobody, which is what root's files look
// like in a namespace of one user.
func TestSSHReadsItsSettings(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		r := run(t, secretFolder(t), nil, "ssh", "-G", "localhost")
		mustCover(t, r)
		if r.code != 0 || !strings.Contains(r.out, "hostname localhost") || strings.Contains(r.out, "Bad owner") {
			t.Errorf("%d, %v\n%s", r.code, r.err, r.out)
		}
	})
}

// A program that cannot be started behind the cover is never started without it.
func TestNoProgramEscapesItsCover(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder := secretFolder(t)
		program := filepath.Join(folder, "program")
		write(t, program, "#!/bin/sh\necho escaped\n", 0o755)
		r := run(t, folder, nil, program)
		var cannot *CannotStart
		if !errors.As(r.err, &cannot) || strings.Contains(r.out, "escaped") || len(r.said) != 0 {
			t.Errorf("%v, said %q, printed %q", r.err, r.said, r.out)
		}
	})
}

// Where a cover is refused the program still runs, after one line that says so.
func TestRunWithoutNamespaces(t *testing.T) {
	for name, self := range map[string][]string{
		"refused":  {"sh", "-c", "echo 'cover: no mounts here' >&$1"},
		"no clone": {"/no/such/program"},
	} {
		folder := secretFolder(t)
		r := run(t, folder, func(o *Options) { o.Self = self }, "sh", "-c", "echo ran; exit 3")
		if r.err != nil || r.code != 3 || r.out != "ran\n" {
			t.Errorf("%s: %d, %v, %q", name, r.code, r.err, r.out)
		}
		if len(r.said) != 1 || !strings.HasPrefix(r.said[0], folder+" is not covered, the program could read it: ") || strings.Contains(r.said[0], "nil") {
			t.Errorf("%s: said %q", name, r.said)
		}
	}
}

// What holds of a program that is covered is said of no other.
func TestOnlyACoverThatHoldsIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		self []string
		want int
	}{"covered": {nil, 1}, "refused": {[]string{"sh", "-c", "echo 'cover: no mounts here' >&$1"}, 0}, "failed": {[]string{"false"}, 0}} {
		told := 0
		r := run(t, secretFolder(t), func(o *Options) {
			o.Covered = func() { told++ }
			if c.self != nil {
				o.Self = c.self
			}
		}, "true")
		if name == "covered" {
			mustCover(t, r)
		}
		if told != c.want {
			t.Errorf("%s: told %d times", name, told)
		}
	}
}

// Where a system lets us cover and it went wrong all the same, nothing is started: what
// an earlier program has left running may have ended the covering process, or hold all
// the namespaces there are.
func TestNothingRunsBesideACoverThatFailed(t *testing.T) {
	for name, self := range map[string][]string{
		"died":      {"false"},
		"was ended": {"sh", "-c", "kill -KILL $$"},
		"none left": {"sh", "-c", "echo 'not now: no space left on device' >&$1"},
	} {
		folder := secretFolder(t)
		r := run(t, folder, func(o *Options) { o.Self = self }, "sh", "-c", "echo ran; exit 3")
		var told *runtime.Error
		if !errors.As(r.err, &told) || !strings.HasPrefix(told.Msg, folder+" could not be covered, and nothing was started: ") || r.out != "" || len(r.said) != 0 {
			t.Errorf("%s: %d, %v, %q, said %q", name, r.code, r.err, r.out, r.said)
		}
	}
	for err, want := range map[error]bool{
		syscall.EPERM: true, syscall.EACCES: true, syscall.ENOSYS: true,
		syscall.ENOSPC: none("user"), syscall.EAGAIN: false, syscall.ENOMEM: false, syscall.EMFILE: false, syscall.E2BIG: false,
	} {
		if got := refuses(fmt.Errorf("clone: %w", err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// An earlier program that still runs may move what is to be covered, by the folder that it
// is in, or put another one there, or a link to where nobody may look, at any moment: the
// next program must not read it where it is then.
func TestWhatWasMovedIsNotLeftUncovered(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		for _, with := range []string{"", "another", "->/proc/1/root"} {
			above := filepath.Join(t.TempDir(), "above")
			folder := filepath.Join(above, "home")
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, "file"), hidden, 0o600)
			decoy := with
			if with == "another" {
				decoy = folder
			}
			moving := func(o *Options) { o.Self = []string{o.Self[0], "_moved", above, decoy} }
			r := run(t, folder, moving, "sh", "-c", `echo ran; cat "$0"/*`, filepath.Join(above+".moved", "home"))
			var told *runtime.Error
			if !errors.As(r.err, &told) || !strings.Contains(told.Msg, "nothing was started") || r.out != "" || len(r.said) != 0 {
				t.Errorf("replaced with %q: %d, %v, %q, said %q", with, r.code, r.err, r.out, r.said)
			}
		}
	})
}

// What is covered may be inside of another, as a trail or a token in the home, and may be
// named by a link: all of it is found before the first cover is there.
func TestWhatIsInsideOfWhatIsCovered(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder := secretFolder(t)
		inside, link := filepath.Join(folder, "inside"), filepath.Join(t.TempDir(), "link")
		if err := os.Mkdir(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(inside, link); err != nil {
			t.Fatal(err)
		}
		more := func(o *Options) { o.Cover = append(o.Cover, filepath.Join(folder, "file"), inside, link) }
		r := run(t, folder, more, "sh", "-c", `echo ran; ls "$0" "$1"`, folder, link)
		mustCover(t, r)
		if r.err != nil || !strings.HasPrefix(r.out, "ran\n") || strings.Contains(r.out, "\nfile\n") {
			t.Errorf("%v, %q", r.err, r.out)
		}
	})
}

// The file system of what is covered may be mounted at another place too, whole or a part of
// it, and there the program would find it.
func TestCoverHidesWhatShowsTwice(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		folder := secretFolder(t)
		above, whole, part := filepath.Dir(folder), t.TempDir(), t.TempDir()
		inside := filepath.Join(folder, "inside")
		if err := os.Mkdir(inside, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(inside, "file"), hidden, 0o600)
		write(t, filepath.Join(above, "other"), "another", 0o600)
		script := `mount --bind "$2" "$3" && mount --bind "$1/inside" "$4" || exit 9
			cat "$3/other" "$3/covered/file" "$4/file" >/dev/null || exit 8
			/proc/self/fd/3 _run "$1" cat "$3/other" "$3/covered/file" "$4/file" "$1/file"`
		out, _ := inContainer(t, "-Urm", "sh", "-c", script, "sh", folder, above, whole, part)
		if strings.Contains(out, hidden) || !strings.Contains(out, "another") || strings.Contains(out, "said: "+folder) {
			t.Errorf("the program got %s", out)
		}
	})
}

// Root of a container that a user has made is root of few ids, and may give no more of them.
func TestCoverInAContainerOfAUser(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		out, err := inContainer(t, "-Ur", "/proc/self/fd/3", "_run", secretFolder(t), "sh", "-c", "id -u; id -g; exit 4")
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 4 || out != "0\n0\n" {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// Without /proc, as in a chroot, no namespace can be given its users: root is told so as
// others are, and the program runs.
func TestRootWithoutProc(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := secretFolder(t)
	out, err := inContainer(t, "-Urm", "sh", "-c", `mount -t tmpfs none /proc && exec "$0" "$@"`, self, "_run", folder, "sh", "-c", "echo ran; exit 4")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 4 || !strings.Contains(out, "said: "+folder+" is not covered, the program could read it: ") || !strings.HasSuffix(out, "ran\n") {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := ranges(filepath.Join(folder, "uid_map")); !refuses(err) {
		t.Errorf("a process that covers would refuse the run: %v", err)
	}
}

// inContainer runs a command as root of a namespace, with this program as its file 3.
func inContainer(t *testing.T, args ...string) (string, error) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("unshare", args...)
	cmd.ExtraFiles = []*os.File{self}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestSignals: what is sent to kimbap alone is passed on, and what the terminal
// sends to the whole group reaches the program, which decides.
func TestSignals(t *testing.T) {
	eachUser(t, func(t *testing.T) {
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGHUP) // under nohup what is started here would ignore it
		defer signal.Stop(heard)
		for _, cover := range []string{"-", secretFolder(t)} {
			for _, c := range []struct {
				name  string
				s     syscall.Signal
				group bool
			}{{"TERM", syscall.SIGTERM, false}, {"HUP", syscall.SIGHUP, false}, {"INT", syscall.SIGINT, true}, {"QUIT", syscall.SIGQUIT, true}} {
				cmd := exec.Command("/proc/self/exe", "_run", cover, "sh", "-c", "trap 'echo trapped; exit 7' "+c.name+"; echo up; while :; do sleep 0.02; done")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewReader(stdout)
				if up, err := lines.ReadString('\n'); up != "up\n" {
					t.Fatalf("it said %q, %v", up, err)
				}
				pid := cmd.Process.Pid
				if c.group {
					pid = -pid
				}
				if err := syscall.Kill(pid, c.s); err != nil {
					t.Fatal(err)
				}
				said, _ := lines.ReadString('\n')
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != 7 || said != "trapped\n" {
					t.Errorf("cover %s, %s: exit code %d, said %q", cover, c.name, code, said)
				}
			}
		}
	})
}

func secretFolder(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "covered")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "file"), hidden, 0o600)
	return folder
}

// mustCover fails a test where the system refused what it is about.
func mustCover(t *testing.T, r ran) {
	t.Helper()
	if r.err != nil || len(r.said) != 0 {
		t.Fatalf("not covered: %v, %q", r.err, r.said)
	}
}
