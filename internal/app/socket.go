package app

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// listen opens the address, or says who could have it.
func listen(addr string) (net.Listener, error) {
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPortInUse,
			Msg:  fmt.Sprintf("%s is in use: another kimbap proxy, or another program, listens there", addr),
			Hint: "kimbap status to see a running proxy, or: kimbap proxy --listen 127.0.0.1:0", Err: err,
		}
	}
	if err != nil {
		return nil, &runtime.Error{
			Code: runtime.CodeInvalidInput, Msg: fmt.Sprintf("cannot listen on %s", addr),
			Hint: "kimbap proxy --listen 127.0.0.1:7788", Err: err,
		}
	}
	return ln, nil
}

// socketPath is the longest path of a unix socket, in bytes (sun_path of Linux and
// macOS, the shorter of the two).
const socketPath = 103

func loopbackHost(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// listenUnix makes a socket that only its owner can connect to. One that a process
// left behind is replaced, one that somebody listens on is not.
func listenUnix(path string) (net.Listener, error) {
	if len(path) > socketPath {
		return nil, badSocket(path, "its path is too long for a socket", nil)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, badSocket(path, "it cannot be looked at", err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, badSocket(path, "something else than a socket is there", nil)
	default:
		if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
			_ = conn.Close()
			return nil, badSocket(path, "another kimbap listens there", syscall.EADDRINUSE)
		}
		if err := os.Remove(path); err != nil {
			return nil, badSocket(path, "what is left of another process cannot be removed", err)
		}
	}
	ln, err := privateSocket(path)
	if err != nil {
		return nil, badSocket(path, "it cannot be made", err)
	}
	return ln, nil
}

func badSocket(path, why string, err error) *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonPortInUse,
		Msg: fmt.Sprintf("scripts cannot be served on %s: %s", path, why), Hint: "kimbap proxy --sidecar unix:PATH", Err: err,
	}
}
