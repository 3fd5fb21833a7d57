//go:build bench

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// rig is the upstream of a run and what is needed to start proxies before it.
type rig struct {
	kimbap, self, dir string
	secure, clear     string // addresses of the upstream
	rootFile          string // its certificate
	rounds            int
	main, hosts       *proxyProcess // shared by the rounds; nil until they are needed
	api               *apiProcess   // the same
	started           int           // proxies
	pids              []int         // of all that was started
}

// proxyProcess is kimbap over a home of its own.
type proxyProcess struct {
	address, caFile string
	home            string
	pid             int
	stop            func()
}

func startRig(t *testing.T, kimbap string, rounds int) *rig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{kimbap: kimbap, self: self, dir: t.TempDir(), rounds: rounds}
	r.rootFile = filepath.Join(r.dir, "upstream.pem")
	said, pid, _ := startProcess(t, exec.Command(self, "-test.run=^TestBenchUpstream$", "-test.v"),
		"KIMBAP_BENCH=upstream", "KIMBAP_BENCH_CA="+r.rootFile)
	r.secure, r.clear, _ = strings.Cut(said, " ")
	r.pids = append(r.pids, pid)
	return r
}

// Hosts of the upstream, by what kimbap knows of them.
const (
	hostMatched = "api.bench.test"   // a service with a credential
	hostOpen    = "open.bench.test"  // a service without one
	hostPlain   = "plain.bench.test" // a service in clear
	hostForeign = "other.bench.test" // no service
)

// benchSecret is the credential of the services that have one.
const benchSecret = "bench-secret"

// serviceText is a service file for the upstream; hosts is the rest of a list.
func serviceText(name, base, auth string, hosts ...string) string {
	return fmt.Sprintf(`name: %s
version: 1.0.0
description: The upstream of the benchmark
base_url: %s
hosts: [%s]
allow_http: %t
auth: %s
actions:
  get-item: {description: Read one item, method: GET, path: "/items/{id}", idempotent: true, risk: {level: low}, args: [{name: id, type: string, required: true}]}
  get-bytes: {description: Read many bytes, method: GET, path: "/bytes/{n:int}", idempotent: true, risk: {level: low}, args: [{name: n, type: integer, required: true}]}
  get-slow: {description: Read one item after 100 ms, method: GET, path: "/slow/{id}", idempotent: true, risk: {level: low}, args: [{name: id, type: string, required: true}]}
  follow: {description: Follow the events, method: GET, path: /events, idempotent: true, risk: {level: low}}
`, name, base, strings.Join(hosts, ", "), strings.HasPrefix(base, "http://"), auth)
}

// bearer is the auth of a service whose credential is name.token.
func bearer(name string) string { return "{type: bearer, credential_ref: " + name + ".token}" }

// proxy starts kimbap with the three services of the benchmark.
func (r *rig) proxy(t *testing.T) *proxyProcess {
	t.Helper()
	resolve := map[string]string{hostPlain + ":80": r.clear}
	for _, host := range []string{hostMatched, hostOpen, hostForeign} {
		resolve[host+":443"] = r.secure
	}
	return r.startProxy(t, resolve, map[string]string{
		"bench": serviceText("bench", "https://"+hostMatched, bearer("bench")),
		"open":  serviceText("open", "https://"+hostOpen, "{type: none}"),
		"plain": serviceText("plain", "http://"+hostPlain, bearer("plain")),
	})
}

// shared is the proxy that most rows use. Each kind of host is checked first.
func (r *rig) shared(t *testing.T) *proxyProcess {
	if r.main == nil {
		r.main = r.proxy(t)
		r.main.check(t, "https://"+hostMatched, r.main.caFile, true)
		r.main.check(t, "https://"+hostOpen, r.main.caFile, false)
		r.main.check(t, "http://"+hostPlain, r.main.caFile, true)
		r.main.check(t, "https://"+hostForeign, r.rootFile, false)
	}
	return r.main
}

// manyHosts is the proxy of a service with n hosts, none of them met yet.
func (r *rig) manyHosts(t *testing.T, n int) *proxyProcess {
	if r.hosts == nil {
		resolve := map[string]string{hostMatched + ":443": r.secure}
		names := make([]string, n)
		for i := range names {
			names[i] = hostNumber(i)
			resolve[names[i]+":443"] = r.secure
		}
		r.hosts = r.startProxy(t, resolve, map[string]string{"bench": serviceText("bench", "https://"+hostMatched, bearer("bench"), names...)})
		r.hosts.check(t, "https://"+hostMatched, r.hosts.caFile, true)
	}
	return r.hosts
}

// startProxy makes a home with services, by name, links those that have a
// credential, and starts the proxy over it.
func (r *rig) startProxy(t *testing.T, resolve, services map[string]string) *proxyProcess {
	t.Helper()
	r.started++
	home := filepath.Join(r.dir, fmt.Sprintf("home%d", r.started))
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string) string {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	upstreams, _ := json.Marshal(resolve) // JSON is YAML
	write(filepath.Join(home, "config.yaml"), fmt.Sprintf("proxy: {limits: {per_principal: 4000}}\nupstream:\n  resolve: %s\n  ca_file: %s\n", upstreams, r.rootFile))
	run := func(stdin string, args ...string) string { return r.run(t, home, stdin, args...) }
	for name, text := range services {
		run("", "service", "install", write(filepath.Join(r.dir, name+".yaml"), text))
		if strings.Contains(text, "credential_ref") {
			run(benchSecret+"\n", "link", name, "--no-check")
		}
	}
	p := &proxyProcess{home: home, caFile: write(home+".pem", run("", "ca", "export"))}
	p.address, p.pid, p.stop = startProcess(t, exec.Command(r.kimbap, "proxy", "--listen", "127.0.0.1:0"), "KIMBAP_HOME="+home)
	r.pids = append(r.pids, p.pid)
	return p
}

// run is one kimbap over a home that must end well. It returns what it printed.
func (r *rig) run(t *testing.T, home, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(r.kimbap, args...)
	cmd.Env = append(os.Environ(), "KIMBAP_HOME="+home)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kimbap %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// startProcess starts a command and returns what it says it listens on, its
// process id and how to end it. It ends with the test in any case.
func startProcess(t *testing.T, cmd *exec.Cmd, env ...string) (address string, pid int, stop func()) {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(stop)
	said := make([]byte, 0, 4096)
	buf := make([]byte, 1024)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		n, err := pipe.Read(buf)
		said = append(said, buf[:n]...)
		if _, rest, ok := strings.Cut(string(said), "ing on http://"); ok { // listening, or serving
			if address, _, whole := strings.Cut(rest, "\n"); whole {
				go func() { // keep the pipe from filling
					for {
						if _, err := pipe.Read(buf); err != nil {
							return
						}
					}
				}()
				return strings.TrimSpace(address), cmd.Process.Pid, stop
			}
		}
		if err != nil {
			break
		}
	}
	t.Fatalf("%s did not start: %s", cmd.Path, said)
	return "", 0, nil
}

// errFailed is a load in which a request failed: its row is missed, whatever
// the rest of the figures say.
var errFailed = errors.New("failed")

// load runs one job in a process of its own, straight to the upstream when p is
// nil. The error is errFailed when not every request went well.
func (r *rig) load(t *testing.T, p *proxyProcess, j job) (loadResult, error) {
	t.Helper()
	j.Upstream, j.Roots = r.secure, r.rootFile
	if j.Clear {
		j.Upstream = r.clear
	}
	if p != nil {
		j.Proxy, j.PID = p.address, p.pid
		if j.Host != hostForeign {
			j.Roots = p.caFile
		}
	}
	task, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.self, "-test.run=^TestBenchLoad$")
	cmd.Env = append(os.Environ(), "KIMBAP_BENCH=load", "KIMBAP_BENCH_JOB="+string(task))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("load: %v\n%s", err, out)
	}
	var result loadResult
	line, _, _ := strings.Cut(string(out), "\n")
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		t.Fatalf("load said %q: %v", out, err)
	}
	if result.Errors > 0 {
		return result, fmt.Errorf("%d %w: %s", result.Errors, errFailed, result.FirstError)
	}
	return result, nil
}

// processorTime is user and system time of a process (proc(5), 100 ticks/s).
func processorTime(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// resident is the resident set of a process in bytes.
func resident(pid int) (int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	return pages * os.Getpagesize(), err
}
