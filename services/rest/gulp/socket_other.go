//go:build !unix

package gulp

import (
	"net"
	"syscall"
)

// Raw is nil: the kernel is not asked about sockets here.
func Raw(net.Conn) syscall.RawConn { return nil }

// Quiet is never asked.
func Quiet(syscall.RawConn) bool { return false }

// present is never asked either.
func present(syscall.RawConn, []byte) (int, error) { return 0, ErrDry }
