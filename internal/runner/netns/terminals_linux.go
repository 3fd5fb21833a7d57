package netns

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

const ptsFolder = devFolder + "/pts"

// ownTerminals puts a folder of terminals for this program alone in the place of the
// machine's, wherever that shows: whoever opens another terminal of the user reads what is
// typed there. Those that the program has been given stay open, and keep their names.
func (m MountTable) ownTerminals() error {
	old, err := os.OpenFile(ptsFolder, unix.O_PATH, 0)
	if err != nil {
		return nil //nolint:nilerr // there are none
	}
	given := givenTerminals()
	again := m.ofKinds("/", "devpts")
	defer func() {
		_ = old.Close()
		for _, t := range given {
			_ = t.Close()
		}
		for _, s := range again {
			_ = s.Close()
		}
	}()
	if err := over(old, "kimbap", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return err
	}
	for _, terminal := range given {
		nameTerminal(terminal)
	}
	for _, s := range again {
		if err := ownTerminalsAt(s, given); err != nil {
			return err
		}
	}
	return nil
}

// ownTerminalsAt does the same at another place, which may show one terminal alone.
func ownTerminalsAt(s shown, given []*os.File) error {
	if s.Name() == ptsFolder {
		return nil
	}
	if s.part == "" {
		return over(s.File, ptsFolder, "", unix.MS_BIND|unix.MS_REC, "")
	}
	for _, terminal := range given {
		if same(int(s.Fd()), int(terminal.Fd())) {
			return nil
		}
	}
	return Cover(s.File)
}

// givenTerminals are those among input and output, opened by their names in this mount
// namespace: what is open belongs to another one, where nothing can be mounted from.
func givenTerminals() (out []*os.File) {
	for fd := range 3 {
		var of unix.Statfs_t
		if err := unix.Fstatfs(fd, &of); err != nil || of.Type != unix.DEVPTS_SUPER_MAGIC {
			continue
		}
		name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)) // or another, as /dev/console of a container
		if err != nil || slices.ContainsFunc(out, func(f *os.File) bool { return f.Name() == name }) {
			continue
		}
		terminal, err := os.OpenFile(name, unix.O_PATH, 0)
		if err != nil {
			continue
		}
		if same(fd, int(terminal.Fd())) {
			out = append(out, terminal)
		} else {
			_ = terminal.Close()
		}
	}
	return out
}

// mostTerminals is up to which number a terminal keeps its name.
const mostTerminals = 512

// nameTerminal shows a terminal under its old name, by which programs look for it, as
// ttyname(3) does. The new folder takes no file that is not a terminal of its own: one of
// the same number is made and stays for as long as this process. Without a name a terminal
// works all the same.
func nameTerminal(terminal *os.File) {
	var number int
	if _, err := fmt.Sscanf(terminal.Name(), ptsFolder+"/%d", &number); err != nil || number > mostTerminals {
		return
	}
	var lower []int
	defer func() {
		for _, fd := range lower {
			_ = unix.Close(fd)
		}
	}()
	for {
		fd, err := unix.Open(ptsFolder+"/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		made, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err == nil && made == number && mount(handle(terminal), terminal.Name(), "", unix.MS_BIND, "") == nil {
			return // it stays open
		}
		lower = append(lower, fd)
		if err != nil || made >= number {
			return
		}
	}
}

// same reports whether two descriptors are of one file.
func same(a, b int) bool {
	var first, second unix.Stat_t
	return unix.Fstat(a, &first) == nil && unix.Fstat(b, &second) == nil && first.Dev == second.Dev && first.Ino == second.Ino
}
