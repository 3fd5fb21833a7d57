package runner

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/internal/system"
)

// reportFD is where the covering process says in one line how it went: started,
// or noStart, noCover or notNow and why. roomFD is where it hands out the sockets of an
// isolated network.
const (
	reportFD = 3
	roomFD   = 4
	started  = "ok"
	noStart  = "start: "
	noCover  = "cover: "
	notNow   = "not now: "
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
	outer, err := covering(o, program(), write)
	if err != nil {
		write.Close()
		return 0, &cannotCover{err.Error(), false}
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
		return o.Signals.wait(outer)
	}
	_ = outer.Wait()
	return 0, notStarted(o, line, err)
}

// notStarted is why the covering process started nothing: what it said, or what
// went wrong on this side.
func notStarted(o Options, line string, err error) error {
	if why, ok := strings.CutPrefix(line, noStart); ok {
		return &CannotStart{o.Command[0], errors.New(why)}
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

// covering prepares the covering process, for the program that it shall start.
func covering(o Options, inner *exec.Cmd, report *os.File) (*exec.Cmd, error) {
	argv := append([]string{}, o.Self[1:]...)
	argv = append(argv, "--uid", strconv.Itoa(os.Getuid()), "--gid", strconv.Itoa(os.Getgid()))
	for _, folder := range o.Cover {
		known, err := identified(folder)
		if err != nil {
			return nil, err
		}
		argv = append(argv, "--cover", known)
	}
	if o.Isolate != nil {
		if err := o.Isolate.furnish(inner.Env, o.UserDir); err != nil {
			return nil, err
		}
		argv = append(argv, "--room")
	}
	outer := exec.Command(o.Self[0], append(append(argv, "--"), inner.Args...)...)
	outer.Args[0] = "kimbap" // what a person sees in a process list, rather than "exe"
	outer.Env, outer.Dir = inner.Env, inner.Dir
	outer.Stdin, outer.Stdout, outer.Stderr = inner.Stdin, inner.Stdout, inner.Stderr
	outer.ExtraFiles = []*os.File{report}
	outer.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		Pdeathsig:   syscall.SIGKILL, // no program without its proxy
		UidMappings: mapping(os.Getuid(), 0), GidMappings: mapping(os.Getgid(), 0),
		GidMappingsEnableSetgroups: os.Getuid() == 0,
	}
	return outer, nil
}

// mapping maps one id of the parent namespace into the child's. Root maps all
// ids, so that the owners of files stay what they are.
func mapping(host, inside int) []syscall.SysProcIDMap {
	if os.Getuid() == 0 {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1<<32 - 2}}
	}
	return []syscall.SysProcIDMap{{ContainerID: inside, HostID: host, Size: 1}}
}

// Covered is the covering process: it runs inside the first namespaces, hides
// the folders, furnishes the network if it is one of its own, starts the program
// in the second user namespace as the user that called `kimbap run`, and returns
// its exit code. What goes wrong before that is reported to the caller, who says
// it.
func Covered(c Covering) (int, error) {
	report := os.NewFile(reportFD, "report")
	syscall.CloseOnExec(reportFD)
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
	signals := Catch()
	defer signals.Stop()
	goruntime.LockOSThread() // Pdeathsig follows the thread that started the process
	defer goruntime.UnlockOSThread()
	if c.Room {
		if err := isolated(); err != nil {
			return cannot(err)
		}
	}
	if err := stayOut(); err != nil {
		return fail(noStart, err)
	}
	cmd := c.program()
	if err := system.Start(cmd); err != nil {
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
func (c *Covering) program() *exec.Cmd {
	cmd := exec.Command(c.Command[0], c.Command[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Env, c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
	}
	if c.UID == 0 {
		all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1<<32 - 2}}
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = all, all
		cmd.SysProcAttr.GidMappingsEnableSetgroups = true
	} else {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: c.UID, HostID: 0, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: c.GID, HostID: 0, Size: 1}}
	}
	return cmd
}

// stayOut enters the working folder again, by its path: who stands in a folder
// that is covered afterwards still stands in what is below the cover.
func stayOut() error {
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("the working folder has no path: %w", err)
	}
	if err := os.Chdir(here); err != nil {
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

// identified names a folder or file so that no other one is taken for it.
func identified(path string) (string, error) {
	var info unix.Stat_t
	if err := unix.Stat(path, &info); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return identity(&info) + path, nil
}

func identity(info *unix.Stat_t) string { return fmt.Sprintf("%d:%d:", info.Dev, info.Ino) }

// known opens what [identified] has named, which is still where it was: an earlier program
// may have moved the folder that it is in, or put another one there. None of its errors is
// how a system refuses covers, since it was found a moment ago: the way to it may lead
// elsewhere, where nobody may look, and nothing may start uncovered for that.
func known(name string) (place *os.File, err error) {
	_, path, _ := strings.Cut(name, ":")
	_, path, _ = strings.Cut(path, ":")
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s was moved away", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s was there and is not found again: %v", path, err) //nolint:errorlint // see above
	}
	place = os.NewFile(uintptr(fd), path)
	var info unix.Stat_t
	if err = unix.Fstat(fd, &info); err != nil {
		err = fmt.Errorf("%s was there and cannot be looked at again: %v", path, err) //nolint:errorlint // see above
	} else if identity(&info)+path != name {
		err = fmt.Errorf("%s was replaced by another", path)
	}
	if err != nil {
		_ = place.Close()
		return nil, err
	}
	return place, nil
}

// mountOver mounts an empty read-only file system over a folder, or an empty file over a file.
func mountOver(place *os.File) error {
	info, err := place.Stat()
	if err != nil {
		return fmt.Errorf("cover %s: %w", place.Name(), err)
	}
	source, kind, flags, data := os.DevNull, "", uintptr(unix.MS_BIND), ""
	if info.IsDir() {
		source, kind, flags, data = "kimbap", "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=4k,mode=0500"
	}
	if err := unix.Mount(source, fmt.Sprintf("/proc/self/fd/%d", place.Fd()), kind, flags, data); err != nil {
		return fmt.Errorf("cover %s: %w", place.Name(), err)
	}
	return nil
}

// hide covers each folder and file. All are found before one is covered, since one may be
// inside another.
func hide(folders []string) error {
	// Nothing that is mounted here may show outside, whatever the distribution
	// set for the root mount.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	var places []*os.File
	defer func() {
		for _, place := range places {
			_ = place.Close()
		}
	}()
	for _, folder := range folders {
		place, err := known(folder)
		if err != nil {
			return err
		}
		places = append(places, place)
	}
	for _, place := range places {
		if err := mountOver(place); err != nil {
			return err
		}
	}
	return ownSSHConfig("/etc/ssh/ssh_config.d")
}

// ownSSHConfig puts copies over the system's ssh settings. Root's files belong
// to nobody in a namespace that maps one user, and ssh refuses to read them.
func ownSSHConfig(dir string) error {
	if mapsRoot() {
		return nil
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.conf"))
	contents := map[string][]byte{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil // not readable for us, so not for ssh either
		}
		contents[filepath.Base(file)] = data
	}
	if len(contents) == 0 {
		return nil
	}
	if err := unix.Mount("kimbap", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=1m,mode=0755"); err != nil {
		return fmt.Errorf("cover %s: %w", dir, err)
	}
	for name, data := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// mapsRoot reports whether the namespace knows more users than one.
func mapsRoot() bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data))
	return len(fields) == 3 && len(fields[2]) > 1
}
