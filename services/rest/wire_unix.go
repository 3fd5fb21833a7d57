//go:build unix

package rest

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// rawOf is what the kernel can be asked about a socket through; nil for none.
func rawOf(socket net.Conn) syscall.RawConn {
	if below, ok := socket.(syscall.Conn); ok {
		if raw, err := below.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// quiet reports whether the kernel holds neither bytes of a socket nor its end,
// and does not wait.
func quiet(raw syscall.RawConn) bool {
	none := false
	err := raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		none = err == unix.EAGAIN || err == unix.EWOULDBLOCK
	})
	return err == nil && none
}
