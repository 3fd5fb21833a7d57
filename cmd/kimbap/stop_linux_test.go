package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// busyProxy is a proxy with a request under way, and what it says.
func busyProxy(t *testing.T) (proxy *exec.Cmd, address string, lines io.Reader) {
	t.Helper()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = upstream.Close() })
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
	proxy = exec.Command(program, "proxy", "--listen", "127.0.0.1:0", "--home", home)
	proxy.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	stderr, err := proxy.StderrPipe()
	check(t, err)
	check(t, proxy.Start())
	t.Cleanup(func() { _ = proxy.Process.Kill() })
	said := bufio.NewReader(stderr)
	for address == "" {
		line, err := said.ReadString('\n')
		check(t, err)
		_, address, _ = strings.Cut(strings.TrimSpace(line), "listening on http://")
	}
	client, err := net.Dial("tcp", address)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	_, err = io.WriteString(client, "GET http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\n\r\n")
	check(t, err)
	there := <-arrived
	t.Cleanup(func() { _ = there.Close() })
	return proxy, address, said
}

// endsBy fails the test when the proxy does not end soon, by one of these signals.
func endsBy(t *testing.T, proxy *exec.Cmd, lines io.Reader, signals ...syscall.Signal) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { _, _ = io.Copy(io.Discard, lines); ended <- proxy.Wait() }()
	select {
	case err := <-ended:
		if exit, ok := err.(*exec.ExitError); !ok || !slices.Contains(signals, exit.Sys().(syscall.WaitStatus).Signal()) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(8 * time.Second): // the grace is ten
		t.Error("it went on after the second signal")
	}
}

// CR-014: told to stop, a proxy lets its requests end; told twice, it ends.
func TestStopTwiceIsNow(t *testing.T) {
	proxy, address, lines := busyProxy(t)
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
	endsBy(t, proxy, lines, syscall.SIGTERM)
}

// A second signal counts also when it comes before the first was looked at.
func TestStopTwiceAtOnceIsNow(t *testing.T) {
	proxy, _, lines := busyProxy(t)
	check(t, proxy.Process.Signal(syscall.SIGTERM))
	check(t, proxy.Process.Signal(syscall.SIGINT))
	endsBy(t, proxy, lines, syscall.SIGTERM, syscall.SIGINT)
}

// timeout(1) sends its signal to the program and then to the whole group: that is one, and what
// is under way ends.
func TestOneSignalTwiceIsOneStop(t *testing.T) {
	arrived, goes := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-goes
	}))
	defer upstream.Close()
	r := newDaemonRig(t)
	address := strings.TrimPrefix(upstream.URL, "http://")
	check(t, os.WriteFile(filepath.Join(r.home, "config.yaml"), fmt.Appendf(nil, "upstream: {resolve: {\"slow.test:80\": %q}}\n", address), 0o600))
	proxy := r.command("", "proxy", "--listen", "127.0.0.1:0")
	stderr, err := proxy.StderrPipe()
	check(t, err)
	check(t, proxy.Start())
	defer func() { _ = proxy.Process.Kill() }()
	at, said := "", bufio.NewReader(stderr)
	for at == "" {
		line, err := said.ReadString('\n')
		check(t, err)
		_, at, _ = strings.Cut(strings.TrimSpace(line), "listening on http://")
	}
	client, err := net.Dial("tcp", at)
	check(t, err)
	defer client.Close()
	_, err = io.WriteString(client, "POST http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	check(t, err)
	<-arrived
	check(t, proxy.Process.Signal(syscall.SIGTERM))
	check(t, proxy.Process.Signal(syscall.SIGTERM))
	close(goes)
	answer, err := io.ReadAll(client)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200") {
		t.Errorf("%q, %v", answer, err)
	}
	_, _ = io.Copy(io.Discard, said)
	check(t, proxy.Wait())
}
