package app_test

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/internal/app/apptest"
)

// The socket's mode keeps others out, and where it is opened to them the kernel
// says who they are.
func TestTheSocketServesItsOwnerOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("only root can connect as somebody else")
		}
		t.Skip("LEFT OUT: only root can connect as somebody else (sudo make test)")
	}
	dir, err := os.MkdirTemp("", "kimbap-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	o := apptest.Options{Scripts: apptest.Worker(t)}
	o.Serve.Sidecar = "unix:" + socket
	apptest.New(t, o)
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	if conn, err := dialAs(t, socket, 65534); err == nil {
		_ = conn.Close()
		t.Error("another user could connect")
	}
	for path, mode := range map[string]os.FileMode{dir: 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for uid, want := range map[int]int{0: 200, 65534: 401} {
		conn, err := dialAs(t, socket, uid)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"code":"return 1"}`
		r, err := http.NewRequest("POST", "http://localhost/v1/exec", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil || answer.StatusCode != want {
			t.Errorf("uid %d: %v %v, want %d", uid, answer, err, want)
		}
		_ = conn.Close()
	}
}

// dialAs connects with the effective uid of somebody else, which this thread alone
// takes on and gives back.
func dialAs(t *testing.T, socket string, uid int) (net.Conn, error) {
	t.Helper()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	become := func(uid int) {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			t.Fatal(errno)
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	become(uid)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
	become(0)
	file := os.NewFile(uintptr(fd), "socket")
	defer func() { _ = file.Close() }()
	if err != nil {
		return nil, err
	}
	return net.FileConn(file)
}
