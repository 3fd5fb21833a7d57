//go:build bench

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// The figures of `make bench`: kimbap as its users run it, in a process of its
// own, beside a direct connection to the same upstream in the same round. Ratios
// are what counts; absolute numbers belong to the machine.

const (
	benchRounds = 3
	benchWindow = 2 * time.Second
)

// figure is one line of the table: what was measured, the bar, the verdict.
type figure struct {
	name, value, bar string
	ok               bool
}

func TestBench(t *testing.T) {
	kimbap := os.Getenv("KIMBAP_BIN")
	if kimbap == "" {
		t.Fatal("KIMBAP_BIN is not set: run this through `make bench`")
	}
	rig := startRig(t, kimbap)
	var figures []figure
	figures = append(figures, rig.idle(t))
	figures = append(figures, rig.ratio(t)...)
	figures = append(figures, rig.single(t), rig.many(t), startUp(t, kimbap))

	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "FIGURE\tMEASURED\tBAR\tVERDICT")
	for _, f := range figures {
		verdict := "ok"
		if !f.ok {
			verdict = "MISSED"
			t.Errorf("%s: %s, bar %s", f.name, f.value, f.bar)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.name, f.value, f.bar, verdict)
	}
	w.Flush()
	fmt.Println(out.String())
}

// rig is an upstream, a proxy over a fresh home with one linked service, and
// what a client needs to reach both.
type rig struct {
	self, upstream, proxy string
	rootFile, caFile      string
	pid                   int
}

func startRig(t *testing.T, kimbap string) *rig {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{self: self, rootFile: filepath.Join(dir, "upstream.pem")}
	line := startProcess(t, exec.Command(self, "-test.run=^TestBenchUpstream$", "-test.v"),
		"KIMBAP_BENCH=upstream", "KIMBAP_BENCH_CA="+r.rootFile)
	r.upstream = line

	home := filepath.Join(dir, "home")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("upstream:\n  resolve: {\"api.bench.test:443\": %q}\n  ca_file: %s\n", r.upstream, r.rootFile)
	service := `name: bench
version: 1.0.0
description: The upstream of the benchmark
base_url: https://api.bench.test
auth: {type: bearer, credential_ref: bench.token}
actions:
  get-item: {description: Read one item, method: GET, path: "/items/{id}", idempotent: true, risk: {level: low}, args: [{name: id, type: string, required: true}]}
`
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin string, args ...string) string {
		cmd := exec.Command(kimbap, args...)
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
	run("", "service", "install", write("bench.yaml", service))
	run("bench-secret\n", "link", "bench", "--no-check")
	r.caFile = write("ca.pem", run("", "ca", "export"))
	cmd := exec.Command(kimbap, "proxy", "--listen", "127.0.0.1:0")
	r.proxy = startProcess(t, cmd, "KIMBAP_HOME="+home)
	r.pid = cmd.Process.Pid
	return r
}

// startProcess starts a command and returns the address it says it listens on.
func startProcess(t *testing.T, cmd *exec.Cmd, env ...string) string {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := make([]byte, 0, 4096)
	buf := make([]byte, 1024)
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		n, err := pipe.Read(buf)
		said = append(said, buf[:n]...)
		if i := bytes.Index(said, []byte("listening on http://")); i >= 0 {
			if address, _, whole := strings.Cut(string(said[i+len("listening on http://"):]), "\n"); whole {
				go func() { // keep the pipe from filling
					for {
						if _, err := pipe.Read(buf); err != nil {
							return
						}
					}
				}()
				return strings.TrimSpace(address)
			}
		}
		if err != nil {
			break
		}
	}
	t.Fatalf("%s did not start: %s", cmd.Path, said)
	return ""
}

// idle is the memory of a proxy that nobody has used yet.
func (r *rig) idle(t *testing.T) figure {
	mib := float64(resident(t, r.pid)) / (1 << 20)
	return figure{"idle proxy, resident", fmt.Sprintf("%.1f MiB", mib), "< 40 MiB", mib < 40}
}

// ratio compares 32 keep-alive connections through kimbap with direct ones.
func (r *rig) ratio(t *testing.T) []figure {
	var ratios, p50, p99, cpu []float64
	for range benchRounds {
		direct := r.load(t, "", 32, benchWindow)
		before := processorTime(t, r.pid)
		through := r.load(t, r.proxy, 32, benchWindow)
		used := processorTime(t, r.pid) - before
		if direct.Errors+through.Errors > 0 {
			t.Errorf("errors: %d direct, %d through kimbap", direct.Errors, through.Errors)
		}
		ratios = append(ratios, through.rate()/direct.rate())
		p50 = append(p50, float64(through.P50-direct.P50)/1e3)
		p99 = append(p99, float64(through.P99-direct.P99)/1e3)
		cpu = append(cpu, float64(used.Microseconds())/float64(through.Requests))
		t.Logf("32 connections: direct %.0f/s, through kimbap %.0f/s", direct.rate(), through.rate())
	}
	ratio := median(ratios)
	return []figure{
		{"matched, audited, 32 connections: requests/s to direct", fmt.Sprintf("%.3f", ratio), ">= 0.18", ratio >= 0.18},
		{"  added p50", fmt.Sprintf("%.0f µs", median(p50)), "shown", true},
		{"  added p99", fmt.Sprintf("%.0f µs", median(p99)), "shown", true},
		{"  processor time per request", fmt.Sprintf("%.0f µs", median(cpu)), "shown", true},
		{"  resident after load", fmt.Sprintf("%.1f MiB", float64(resident(t, r.pid))/(1<<20)), "shown", true},
	}
}

// single is what one request at a time waits for: the durable intent, mostly.
func (r *rig) single(t *testing.T) figure {
	var added []float64
	for range benchRounds {
		direct, through := r.load(t, "", 1, benchWindow/2), r.load(t, r.proxy, 1, benchWindow/2)
		added = append(added, float64(through.P50-direct.P50)/1e3)
	}
	return figure{"matched, audited, 1 connection: added p50", fmt.Sprintf("%.0f µs", median(added)), "shown", true}
}

// many is whether four times as many connections bring an error.
func (r *rig) many(t *testing.T) figure {
	result := r.load(t, r.proxy, 128, benchWindow)
	return figure{"128 connections: errors", fmt.Sprintf("%d of %d", result.Errors, result.Requests), "0", result.Errors == 0 && result.Requests > 0}
}

// startUp compares `kimbap version` with a Go program that does nothing.
func startUp(t *testing.T, kimbap string) figure {
	dir := t.TempDir()
	source := filepath.Join(dir, "bare.go")
	if err := os.WriteFile(source, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"bare\") }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(dir, "bare")
	if out, err := exec.Command("go", "build", "-o", bare, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var added []float64
	for range 20 {
		a := lifetime(t, bare)
		b := lifetime(t, kimbap, "version")
		added = append(added, float64((b-a).Microseconds())/1e3)
	}
	ms := median(added)
	return figure{"kimbap version, over a bare Go program", fmt.Sprintf("%.1f ms", ms), "<= 6 ms", ms <= 6}
}

func lifetime(t *testing.T, name string, args ...string) time.Duration {
	start := time.Now()
	if err := exec.Command(name, args...).Run(); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// load drives the upstream from a process of its own and returns what it saw.
func (r *rig) load(t *testing.T, proxy string, connections int, window time.Duration) loadResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), window+20*time.Second)
	defer cancel()
	roots := r.caFile
	if proxy == "" {
		roots = r.rootFile
	}
	cmd := exec.CommandContext(ctx, r.self, "-test.run=^TestBenchLoad$")
	cmd.Env = append(os.Environ(), "KIMBAP_BENCH=load", "KIMBAP_BENCH_CA="+roots, "KIMBAP_BENCH_PROXY="+proxy,
		"KIMBAP_BENCH_UPSTREAM="+r.upstream, "KIMBAP_BENCH_C="+strconv.Itoa(connections), "KIMBAP_BENCH_D="+window.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("load: %v\n%s", err, out)
	}
	var result loadResult
	line, _, _ := strings.Cut(string(out), "\n")
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		t.Fatalf("load said %q: %v", out, err)
	}
	return result
}

// processorTime is user and system time of a process (proc(5), 100 ticks/s).
func processorTime(t *testing.T, pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// resident is the resident set of a process in bytes.
func resident(t *testing.T, pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	pages, _ := strconv.Atoi(strings.Fields(string(data))[1])
	return pages * os.Getpagesize()
}

func median(list []float64) float64 {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}
