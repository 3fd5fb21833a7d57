package worker

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBuf is how many bytes a pipe takes whole or not at all: PIPE_BUF of pipe(7).
const pipeBuf = 4096

// writeAtOnce writes a text of at most so many bytes, without waiting; false when the
// pipe has no room, and nothing of it was written.
func writeAtOnce(pipe *os.File, text []byte) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	err = raw.Write(func(fd uintptr) bool {
		n, _ = unix.Write(int(fd), text)
		return true // no room: the poller is not to wait for it
	})
	return err == nil && n == len(text)
}
