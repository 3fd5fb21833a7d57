//go:build unix

package gulp

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Raw is what the kernel can be asked about a socket through; nil for none.
func Raw(socket net.Conn) syscall.RawConn {
	if below, ok := socket.(syscall.Conn); ok {
		if raw, err := below.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// Quiet reports whether the kernel holds neither bytes of a socket nor its end,
// and does not wait.
func Quiet(raw syscall.RawConn) bool {
	none := false
	err := raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		none = err == unix.EAGAIN || err == unix.EWOULDBLOCK
	})
	return err == nil && none
}

// present reads what the kernel holds of a socket, and does not wait: ErrDry says
// that it holds nothing. An error of the socket is told once, so it is passed on; that
// reading has become impossible here is for whoever waits to hear.
func present(raw syscall.RawConn, p []byte) (n int, err error) {
	rerr := raw.Read(func(fd uintptr) bool {
		for n, err = unix.Read(int(fd), p); err == unix.EINTR; {
			n, err = unix.Read(int(fd), p)
		}
		return true
	})
	switch {
	case rerr != nil, err == unix.EAGAIN, err == unix.EWOULDBLOCK:
		return 0, ErrDry
	case err != nil:
		return 0, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", err)}
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
