package proxy

import (
	"bufio"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The HTTP/2 that clients meet in a tunnel is the one of RFC 7540, by all cases
// of h2spec. The tool is a module of its own in testdata, pinned there.
func TestH2Spec(t *testing.T) {
	r := newRig(t, nil)
	port := r.forward()
	authority := "127.0.0.1:" + port
	r.stages.own(t, "https://"+authority)
	r.upstream(authority, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	tool, report := filepath.Join(dir, "h2spec"), filepath.Join(dir, "report.xml")
	build := exec.CommandContext(ctx, "go", "build", "-o", tool, "github.com/summerwind/h2spec/cmd/h2spec")
	build.Dir = filepath.Join("testdata", "h2spec")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build h2spec: %v\n%s", err, out)
	}
	run := exec.CommandContext(ctx, tool, "-t", "-k", "-h", "127.0.0.1", "-p", port, "-P", "/open", "-o", "5", "-j", report)
	out, _ := run.CombinedOutput() // it fails when a case does
	cases, failed := readReport(t, report)
	if cases < 140 {
		t.Fatalf("h2spec ran %d cases only:\n%s", cases, out)
	}
	for name, why := range failed {
		t.Errorf("%s: %s", name, why)
	}
}

// readReport returns how many cases were run and those that failed.
func readReport(t *testing.T, file string) (cases int, failed map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Suites []struct {
			Cases []struct {
				Package string  `xml:"package,attr"`
				Name    string  `xml:"classname,attr"`
				Failure *string `xml:"failure"`
				Error   *string `xml:"error"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	failed = map[string]string{}
	for _, suite := range report.Suites {
		for _, c := range suite.Cases {
			cases++
			for _, why := range []*string{c.Failure, c.Error} {
				if why != nil {
					failed[c.Package+": "+c.Name] = strings.TrimSpace(*why)
				}
			}
		}
	}
	return cases, failed
}

// forward listens on a port of its own and sends what comes there through a
// CONNECT to that very port, for clients that know no proxy.
func (r *rig) forward() (port string) {
	r.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { through(c, r.addr, ln.Addr().String()) })
		}
	})
	r.t.Cleanup(func() { _ = ln.Close(); wait.Wait() })
	_, port, _ = net.SplitHostPort(ln.Addr().String())
	return port
}

// through joins c with the inside of a CONNECT.
func through(c net.Conn, proxy, authority string) {
	defer func() { _ = c.Close() }()
	up, err := net.Dial("tcp", proxy)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	_, _ = fmt.Fprintf(up, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority)
	br := bufio.NewReader(up)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil || resp.StatusCode != http.StatusOK {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	_, _ = io.Copy(c, br)
	_ = c.Close()
	<-done
}
