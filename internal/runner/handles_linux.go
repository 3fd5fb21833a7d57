package runner

import (
	"os"
	"os/exec"

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

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
