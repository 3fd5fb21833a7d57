// Package socket opens the sockets that kimbap listens on, says who could have an address
// that is taken, and bounds the connections of a listener. A unix socket is its owner's
// alone.
//
// It decides for no address whether it may be listened on: who must ask that asks
// [Loopback]. Start reading at [Listen], [ListenUnix] and [Bounded].
package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
)

// Listen opens a TCP address, or says who could have it and, with other, how to give
// another one. Errors are [runtime.Error].
func Listen(addr, other string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if system.AddressTaken(err) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPortInUse,
			Msg:  fmt.Sprintf("%s is in use: another kimbap, or another program, listens there", addr),
			Hint: "kimbap status to see what runs, or: " + other, Err: err,
		}
	}
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("cannot listen on %s", addr),
			Hint: other, Err: err,
		}
	}
	return ln, nil
}

// Loopback reports whether a host, as it stands in an address without the port, is this
// machine alone.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// maxPath is the longest path of a unix socket, in bytes (sun_path of Linux and macOS,
// the shorter of the two).
const maxPath = 103

// ListenUnix makes a socket that only its owner can connect to. One that a process
// left behind is replaced, one that somebody listens on is not, and neither is one of
// which that cannot be said: only where nobody listens is a connection refused. (On macOS
// it is refused as well where too many wait for one.) Other is how to give another path.
func ListenUnix(path, other string) (net.Listener, error) {
	bad := func(why string, err error) *runtime.Error {
		return &runtime.Error{Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("cannot listen on %s: %s", path, why), Hint: other, Err: err}
	}
	if len(path) > maxPath {
		return nil, bad("its path is too long for a socket", nil)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, bad("it cannot be looked at", err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, bad("something else than a socket is there", nil)
	default:
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = conn.Close()
			e := bad("another kimbap listens there", syscall.EADDRINUSE)
			e.Reason = runtime.ReasonPortInUse
			return nil, e
		}
		if !system.ConnectionRefused(err) && !errors.Is(err, fs.ErrNotExist) { // a full backlog; a socket of another kind
			return nil, bad("a socket is there that takes up no connection now, and may be somebody's", err)
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, bad("what is left of another process cannot be removed", err)
		}
	}
	ln, err := privateSocket(path)
	if system.NoSuchSockets(err) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput,
			Msg:  fmt.Sprintf("this system has no sockets in files, so nothing can listen on %s", path),
			Hint: "update it (Windows has them since version 1803), or use an address: kimbap proxy --sidecar 127.0.0.1:7790; commands need no daemon", Err: err,
		}
	}
	if err != nil {
		return nil, bad("it cannot be made", err)
	}
	return ln, nil
}
