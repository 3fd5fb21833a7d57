//go:build unix

package rest

import "golang.org/x/sys/unix"

// still reports whether the other side has neither sent anything nor gone away
// while the wire lay in the rack. It asks the kernel and does not wait.
func (w *wire) still() bool {
	if w.raw == nil {
		return w.silent(soon())
	}
	quiet := false
	err := w.raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN || err == unix.EWOULDBLOCK
	})
	return err == nil && quiet
}
