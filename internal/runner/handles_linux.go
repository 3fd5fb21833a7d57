package runner

import (
	"os"
	"os/exec"
	"strconv"

	"golang.org/x/sys/unix"
)

// firstFile is the number of the first file that a program gets beside its input, its output
// and where it says its errors.
const firstFile = 3

// handOver gives a command a file at the first number at which the shell has opened none for
// the program, and says which. What it has opened below is handed on in copies, to be closed
// once the command runs: [exec.Cmd] closes there what it is not told of.
func handOver(cmd *exec.Cmd, file *os.File) (number int, copies []*os.File, err error) {
	for number = firstFile; inherited(number); number++ {
		fd, err := unix.FcntlInt(uintptr(number), unix.F_DUPFD_CLOEXEC, firstFile)
		if err != nil {
			closeAll(copies)
			return 0, nil, err
		}
		copies = append(copies, os.NewFile(uintptr(fd), "of the shell"))
	}
	cmd.ExtraFiles = append(append(cmd.ExtraFiles, copies...), file)
	return number, copies, nil
}

// inherited reports whether programs that this process starts have a file of that number.
func inherited(number int) bool {
	flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFD, 0)
	return err == nil && flags&unix.FD_CLOEXEC == 0
}

// keepFolders keeps folders that were opened before the covers were there from the program: they
// lead to what is below. Who has one as its input has nothing instead.
func keepFolders() error {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range open {
		var info unix.Stat_t
		fd, err := strconv.Atoi(e.Name())
		if err != nil || unix.Fstat(fd, &info) != nil || info.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		if unix.CloseOnExec(fd); fd >= firstFile {
			continue
		}
		none, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		err = unix.Dup3(none, fd, 0)
		_ = unix.Close(none)
		if err != nil {
			return err
		}
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
