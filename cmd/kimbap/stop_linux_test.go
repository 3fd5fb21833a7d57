package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowAt is the configuration of a home for which slow.test is at an address.
func slowAt(t *testing.T, home, address string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(home, "config.yaml"), fmt.Appendf(nil, "upstream: {resolve: {\"slow.test:80\": %q}}\n", address), 0o600))
}

// listening reads what a program says until it says where it listens.
func listening(t *testing.T, said *bufio.Reader) (address string) {
	t.Helper()
	for address == "" {
		line, err := said.ReadString('\n')
		check(t, err)
		_, address, _ = strings.Cut(strings.TrimSpace(line), " on http://")
	}
	return address
}

// busy is a proxy with a request under way.
type busy struct {
	*exec.Cmd
	address          string
	said             *bufio.Reader
	client, upstream net.Conn // the request's
}

func busyProxy(t *testing.T) busy {
	t.Helper()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = upstream.Close() })
	arrived := make(chan net.Conn, 1)
	go func() {
		if c, err := upstream.Accept(); err == nil {
			arrived <- c // and is not answered
		}
	}()
	r := newDaemonRig(t)
	slowAt(t, r.home, upstream.Addr().String())
	p := busy{Cmd: r.command("", "proxy", "--listen", "127.0.0.1:0")}
	stderr, err := p.StderrPipe()
	check(t, err)
	check(t, p.Start())
	t.Cleanup(func() { _ = p.Process.Kill() })
	p.said = bufio.NewReader(stderr)
	p.address = listening(t, p.said)
	p.client, err = net.Dial("tcp", p.address)
	check(t, err)
	t.Cleanup(func() { _ = p.client.Close() })
	_, err = io.WriteString(p.client, "GET http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\n\r\n")
	check(t, err)
	p.upstream = <-arrived
	t.Cleanup(func() { _ = p.upstream.Close() })
	return p
}

// endsBy fails the test when the proxy does not end soon, by one of these signals.
func endsBy(t *testing.T, proxy busy, signals ...syscall.Signal) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { _, _ = io.Copy(io.Discard, proxy.said); ended <- proxy.Wait() }()
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
	proxy := busyProxy(t)
	check(t, proxy.Process.Signal(syscall.SIGTERM))
	for { // until it takes nobody any more, so that the first signal has come
		c, err := net.Dial("tcp", proxy.address)
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
	endsBy(t, proxy, syscall.SIGTERM)
}

// A second signal counts also when it comes before the first was looked at.
func TestStopTwiceAtOnceIsNow(t *testing.T) {
	proxy := busyProxy(t)
	check(t, proxy.Process.Signal(syscall.SIGTERM))
	check(t, proxy.Process.Signal(syscall.SIGINT))
	endsBy(t, proxy, syscall.SIGTERM, syscall.SIGINT)
}

// timeout(1) sends its signal to the program and then to the whole group: that is one, and what
// is under way ends.
func TestOneSignalTwiceIsOneStop(t *testing.T) {
	proxy := busyProxy(t)
	for tries := 1; !twice(t, proxy.Process); tries++ { // on a busy machine the second came too late to be the same
		if tries == 20 {
			t.Fatal("no two signals at once")
		}
		proxy = busyProxy(t)
	}
	_, err := io.WriteString(proxy.upstream, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	check(t, err)
	if answer, err := http.ReadResponse(bufio.NewReader(proxy.client), nil); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", answer, err)
	}
	_, _ = io.Copy(io.Discard, proxy.said)
	check(t, proxy.Wait())
}

// twice sends a process SIGTERM, and again once the first has come, since the system makes one of
// two that wait. It reports whether that was soon enough.
func twice(t *testing.T, p *os.Process) bool {
	t.Helper()
	begun := time.Now()
	check(t, p.Signal(syscall.SIGTERM))
	for waits := uint64(1); waits != 0; {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Pid))
		check(t, err)
		_, pending, _ := strings.Cut(string(status), "ShdPnd:\t")
		waits, err = strconv.ParseUint(pending[:strings.IndexByte(pending, '\n')], 16, 64)
		check(t, err)
		waits &= 1 << (syscall.SIGTERM - 1)
	}
	check(t, p.Signal(syscall.SIGTERM))
	return time.Since(begun) < sameAgain/2
}
