//go:build !unix

package rest

import (
	"net"
	"syscall"
)

// rawOf is nil: the kernel is not asked about sockets here.
func rawOf(net.Conn) syscall.RawConn { return nil }

// quiet is never asked.
func quiet(syscall.RawConn) bool { return false }

// present is never asked either.
func present(syscall.RawConn, []byte) (int, error) { return 0, errDry }
