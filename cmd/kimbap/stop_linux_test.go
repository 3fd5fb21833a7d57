package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// CR-014: told to stop, a proxy lets its requests end; told twice, it ends.
func TestStopTwiceIsNow(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer upstream.Close()
	arrived := make(chan net.Conn, 1)
	go func() {
		if c, err := upstream.Accept(); err == nil {
			arrived <- c // and is never answered
		}
	}()
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	check(t, os.Mkdir(home, 0o700))
	check(t, os.WriteFile(filepath.Join(home, "config.yaml"), fmt.Appendf(nil, "upstream: {resolve: {\"slow.test:80\": %q}}\n", upstream.Addr()), 0o600))
	self, err := os.Executable()
	check(t, err)
	program := filepath.Join(dir, "kimbap")
	check(t, os.Symlink(self, program))
	proxy := exec.Command(program, "proxy", "--listen", "127.0.0.1:0", "--home", home)
	proxy.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	stderr, err := proxy.StderrPipe()
	check(t, err)
	check(t, proxy.Start())
	defer func() { _ = proxy.Process.Kill() }()
	lines, address := bufio.NewReader(stderr), ""
	for address == "" {
		line, err := lines.ReadString('\n')
		check(t, err)
		_, address, _ = strings.Cut(strings.TrimSpace(line), "listening on http://")
	}
	client, err := net.Dial("tcp", address)
	check(t, err)
	defer client.Close()
	_, err = io.WriteString(client, "GET http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\n\r\n")
	check(t, err)
	defer (<-arrived).Close()

	check(t, proxy.Process.Signal(syscall.SIGTERM))
	for { // until it takes nobody any more, so that the first signal has come
		c, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		_ = c.Close()
		time.Sleep(10 * time.Millisecond)
	}
	if err := proxy.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatal("it did not wait for the request that is under way")
	}
	check(t, proxy.Process.Signal(syscall.SIGTERM))
	ended := make(chan error, 1)
	go func() { _, _ = io.Copy(io.Discard, lines); ended <- proxy.Wait() }()
	select {
	case err := <-ended:
		if exit, ok := err.(*exec.ExitError); !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(8 * time.Second): // the grace is ten
		t.Error("it went on after the second signal")
	}
}
