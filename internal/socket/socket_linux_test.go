package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime"
)

// occupied has a socket of a kind at a path, with as many connections to it as it takes.
func occupied(t *testing.T, path string, kind int) {
	t.Helper()
	open := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return fd
	}
	at := &unix.SockaddrUnix{Name: path}
	server := open()
	if err := unix.Bind(server, at); err != nil {
		t.Fatal(err)
	}
	if kind != unix.SOCK_STREAM {
		return
	}
	if err := unix.Listen(server, 1); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		err := unix.Connect(open(), at)
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the backlog of one never was full")
}

// A server that takes up no connection at the moment is alive, and so is one that is not
// spoken to in a stream: their sockets stay. One that nobody holds is replaced.
func TestOnlyASocketThatNobodyHoldsIsReplaced(t *testing.T) {
	for name, kind := range map[string]int{"a full backlog": unix.SOCK_STREAM, "datagrams": unix.SOCK_DGRAM} {
		path := filepath.Join(t.TempDir(), "socket")
		occupied(t, path, kind)
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		ln, err := ListenUnix(path, "give another one")
		if err == nil {
			_ = ln.Close()
			t.Errorf("%s: its socket was taken away", name)
			continue
		}
		if e := runtime.AsError(err); e.Code != runtime.CodeInvalidInput || e.Hint != "give another one" {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: it is not there any more: %v", name, err)
		}
	}

	path := filepath.Join(t.TempDir(), "socket")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err := ListenUnix(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if _, err := ListenUnix(path, ""); runtime.AsError(err).Reason != runtime.ReasonPortInUse {
		t.Errorf("beside one that listens: %v", err)
	}
}
