//go:build unix

package worker

import (
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// polled is a pipe for which the Go runtime's poller waits, instead of the kernel in the
// call that reads. Whoever reads in such a call keeps a processor of Go until the
// scheduler takes it away, and on it lies the script that the last reply has woken: it
// began some 75 microseconds late. What is no pipe is left as it is. The descriptor is the
// same one, so the file that was given must not be closed.
func polled(in io.Reader) io.Reader {
	f, ok := in.(*os.File)
	if !ok {
		return in
	}
	if info, err := f.Stat(); err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
		return in
	}
	fd := f.Fd()
	if unix.SetNonblock(int(fd), true) != nil {
		return in
	}
	p := os.NewFile(fd, f.Name()) // looks whether it waits, and tells the poller where not
	if p.SetReadDeadline(time.Time{}) != nil {
		_ = unix.SetNonblock(int(fd), false) // the poller would not have it: p waits in the call
	}
	return p // also then: once nobody has it, it closes the descriptor
}
