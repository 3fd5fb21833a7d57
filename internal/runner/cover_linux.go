package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kimbap-run/kimbap/internal/runner/netns"
)

// What the covering process says in one line, of how it went: started, or one of the others
// and why.
const (
	started = "ok"
	noStart = "start: "
	noEntry = "enter: "
	noCover = "cover: "
	notNow  = "not now: "
)

// covered starts the program with folders hidden from it, in three steps that
// need no privilege: a user and mount namespace in which an empty read-only
// file system is mounted over each folder, then, below it, a second user
// namespace for the program. In there it has no power over the mounts, and a
// namespace that it makes itself inherits them locked (user_namespaces(7),
// mount_namespaces(7)). Landlock would not do: it has no rule that takes away.
func covered(o Options, program func() *exec.Cmd) (int, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer read.Close()
	outer, copies, err := covering(o, program(), write)
	defer closeAll(copies)
	if err != nil {
		write.Close()
		return 0, &cannotCover{err.Error(), errors.Is(err, errNoMaps)}
	}
	var jail *jail
	if o.Isolate != nil {
		if jail, err = o.Isolate.into(outer); err != nil {
			write.Close()
			return 0, err
		}
		defer jail.close()
	}
	goruntime.LockOSThread() // Pdeathsig follows the thread that started the process
	defer goruntime.UnlockOSThread()
	err = o.Signals.start(outer)
	write.Close()
	var interrupted *Interrupted
	if errors.As(err, &interrupted) {
		return 0, err
	}
	if err != nil {
		return 0, &cannotCover{err.Error(), refuses(err) || errors.Is(err, syscall.ENOENT)} // there is no /proc
	}
	if jail != nil {
		err = jail.open(o.Isolate)
	}
	line, _ := bufio.NewReader(read).ReadString('\n')
	line = strings.TrimSuffix(line, "\n")
	if line == started {
		if o.Covered != nil {
			o.Covered()
		}
		return o.Signals.wait(outer)
	}
	_ = outer.Wait()
	if by := interruptedWith(outer, o.Signals); by != nil {
		return 0, by
	}
	return 0, notStarted(o, line, err)
}

// interruptedWith is an [Interrupted] if a signal came before the program was started. The
// terminal sends one to this process and to the covering one, which may have ended by it
// before this one knows.
func interruptedWith(outer *exec.Cmd, signals *Signals) error {
	status, ok := outer.ProcessState.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() && slices.Contains(ending, os.Signal(status.Signal())) {
		return &Interrupted{status.Signal()}
	}
	return signals.interrupted()
}

// notStarted is why the covering process started nothing: what it said, or what
// went wrong on this side.
func notStarted(o Options, line string, err error) error {
	var ours *unserved
	if errors.As(err, &ours) {
		return ours.error
	}
	if why, ok := strings.CutPrefix(line, noStart); ok {
		return &CannotStart{Program: o.Command[0], Err: errors.New(why)}
	}
	if why, ok := strings.CutPrefix(line, noEntry); ok {
		return &CannotStart{o.Command[0], errors.New(why), "cd to another folder, and start it there"}
	}
	if why, ok := strings.CutPrefix(line, noCover); ok {
		return &cannotCover{why, true}
	}
	why, said := strings.CutPrefix(line, notNow)
	switch {
	case said:
	case err != nil:
		return err
	case why == "":
		why = "the covering process ended without a word"
	}
	return &cannotCover{why, false}
}

// refuses reports whether an error is how a system says that there are no namespaces for
// this user, or no mounts in them. Others, as that there is none left, may be for now.
func refuses(err error) bool {
	if errors.Is(err, syscall.ENOSPC) {
		return none("user") || none("mnt")
	}
	for _, of := range []error{
		syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENODEV, syscall.EUSERS,
		errNoMaps,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// none reports whether nobody may make a namespace of a kind (namespaces(7)).
func none(kind string) bool {
	most, err := os.ReadFile("/proc/sys/user/max_" + kind + "_namespaces")
	return err == nil && strings.TrimSpace(string(most)) == "0"
}

// covering prepares the covering process, for the program that it shall start. The copies are
// to be closed once it runs.
func covering(o Options, inner *exec.Cmd, report *os.File) (outer *exec.Cmd, copies []*os.File, err error) {
	outer = exec.Command(o.Self[0], o.Self[1:]...)
	number, copies, err := handOver(outer, report)
	if err != nil {
		return nil, nil, err
	}
	argv := append(outer.Args, "--report", strconv.Itoa(number), "--uid", strconv.Itoa(os.Getuid()), "--gid", strconv.Itoa(os.Getgid()))
	for _, folder := range o.Cover {
		known, err := identified(folder)
		if err != nil {
			return nil, copies, err
		}
		argv = append(argv, "--cover", known)
	}
	if o.Isolate != nil {
		if err := o.Isolate.furnish(inner.Env, o.UserDir); err != nil {
			return nil, copies, err
		}
		argv = append(argv, "--room")
	}
	outer.Args = append(append(argv, "--"), inner.Args...)
	outer.Args[0] = "kimbap" // what a person sees in a process list, rather than "exe"
	outer.Env, outer.Dir = inner.Env, inner.Dir
	outer.Stdin, outer.Stdout, outer.Stderr = inner.Stdin, inner.Stdout, inner.Stderr
	outer.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL, // no program without its proxy
	}
	if err := mapIDs(outer.SysProcAttr, ids{os.Getuid(), os.Getgid()}, ids{0, 0}, os.Getuid() == 0); err != nil {
		return nil, copies, err
	}
	return outer, copies, nil
}

// Covered is the covering process: it runs inside the first namespaces, hides
// the folders, furnishes the network if it is one of its own, starts the program
// in the second user namespace as the user that called `kimbap run`, and returns
// its exit code. What goes wrong before that is reported to the caller, who says
// it.
func Covered(c Covering) (int, error) {
	report := os.NewFile(uintptr(c.Report), "report")
	syscall.CloseOnExec(c.Report)
	fail := func(what string, err error) (int, error) {
		if _, unheard := fmt.Fprintf(report, "%s%v\n", what, err); unheard != nil {
			return 0, err
		}
		return 1, nil
	}
	cannot := func(err error) (int, error) {
		if refuses(err) {
			return fail(noCover, err)
		}
		return fail(notNow, err)
	}
	if err := hide(c.Folders); err != nil {
		return cannot(err)
	}
	if err := keepFolders(); err != nil {
		return cannot(err)
	}
	signals := Catch()
	defer signals.Stop()
	goruntime.LockOSThread() // Pdeathsig follows the thread that started the process
	defer goruntime.UnlockOSThread()
	if c.Room {
		if err := isolated(c.Report + 1); err != nil {
			return cannot(err)
		}
	} else {
		// What a program types into the terminal, the shell runs uncovered. Where the system
		// has no such filter that cannot be kept from it; files can.
		_ = netns.Mute()
	}
	if err := stayOut(); err != nil {
		return fail(noEntry, err)
	}
	cmd, err := c.program(c.Command)
	if err != nil {
		return cannot(err)
	}
	err = signals.start(cmd)
	if script := asScript(cmd, err); script != nil {
		if cmd, err = c.program(script); err == nil {
			err = signals.start(cmd)
		}
	}
	if err != nil {
		if ofProgram(err) {
			return fail(noStart, err)
		}
		return cannot(err)
	}
	fmt.Fprintln(report, started)
	report.Close()
	return signals.wait(cmd)
}

// program is what the covering process starts, in a user namespace in which it
// has no power over the others.
func (c *Covering) program(argv []string) (*exec.Cmd, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
	}
	return cmd, mapIDs(cmd.SysProcAttr, ids{0, 0}, ids{c.UID, c.GID}, c.UID == 0)
}

// stayOut enters the working folder again, by its path: who stands in a folder
// that is covered afterwards still stands in what is below the cover.
func stayOut() error {
	here, err := os.Getwd()
	if errors.Is(err, syscall.EACCES) { // of a folder that cannot be entered the kernel knows the path
		here, err = syscall.Getwd()
	}
	if err != nil {
		return fmt.Errorf("the working folder has no path: %w", err)
	}
	if err := os.Chdir(here); err != nil {
		if errors.Is(err, syscall.EACCES) {
			return fmt.Errorf("the working folder %s cannot be entered from here: %w", here, syscall.EACCES)
		}
		return fmt.Errorf("the working folder is covered: %w", err)
	}
	return nil
}

// ofProgram tells an error of execve(2), which is about the program, from one of
// clone(2), which is about the namespace.
func ofProgram(err error) bool {
	for _, of := range []error{
		syscall.ENOENT, syscall.EACCES, syscall.ENOEXEC, syscall.ENOTDIR, syscall.EISDIR,
		syscall.ELOOP, syscall.E2BIG, syscall.ETXTBSY, syscall.ENAMETOOLONG,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
