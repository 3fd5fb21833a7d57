//go:build bench

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// rows are all that `make bench` measures. reach is the bar of a figure, aim is
// where it should be one day.
func rows() []row {
	items := func(host string, connections int) job {
		return job{Kind: "keep", Host: host, Path: "/items/1", Connections: connections, Window: benchWindow}
	}
	kind := func(name string, j job) job { j.Kind = name; return j }
	path := func(p string, j job) job { j.Path = p; return j }
	plain := items(hostPlain, 32)
	plain.Clear = true
	ratio := func(title string, reach, aim float64) []figure {
		return []figure{{title: title, reach: reach, aim: aim, sense: atLeast, digits: 3}}
	}
	return append([]row{
		{name: "idle", most: 1, measure: idleMemory, figures: []figure{
			{title: "idle proxy, resident, three seconds after its start", unit: "MiB", reach: 40, sense: atMost, digits: 1}}},
		{name: "matched", measure: matched(items(hostMatched, 32)), figures: []figure{
			{title: "h1 TLS keep-alive, 32 connections, matched", reach: 0.26, aim: 0.40, sense: atLeast, digits: 3},
			{title: "  proxy CPU per request", unit: "µs", reach: 55, aim: 32, sense: atMost},
			{title: "  added p50", unit: "µs", sense: shown},
			{title: "  added p99", unit: "µs", sense: shown},
			{title: "  resident after load", unit: "MiB", sense: shown, digits: 1}}},
		{name: "open", measure: ratioOf(items(hostOpen, 32)), figures: ratio("the same, intercepted host without credential", 0.34, 0.50)},
		{name: "h2", measure: multiplexed(kind("h2", items(hostMatched, 32))), figures: []figure{
			{title: "h2, 32 streams on two connections, matched", reach: 0.30, aim: 0.42, sense: atLeast, digits: 3},
			{title: "  all of them on one connection", sense: shown, digits: 3}}},
		{name: "raw", measure: ratioOf(items(hostForeign, 32)), figures: ratio("host not intercepted (raw tunnel)", 0.62, 0.70)},
		{name: "plain", measure: ratioOf(plain), figures: ratio("plain HTTP forward, 32 connections, matched", 0.24, 0.40)},
		{name: "new", measure: ratioOf(kind("new", items(hostMatched, 8))), figures: ratio("a new connection per request, 8 clients", 0.78, 0.90)},
		{name: "hosts", measure: firstContact, figures: ratio("distinct hosts, first contact (certificate made)", 0.36, 0.45)},
		{name: "large", measure: ratioOf(path("/bytes/65536", items(hostMatched, 16)), path("/bytes/65536", items(hostOpen, 16))), figures: []figure{
			{title: "64 KiB bodies, 16 connections, matched", reach: 0.48, aim: 0.53, sense: atLeast, digits: 3},
			{title: "  the same, intercepted host without credential", sense: shown, digits: 3}}},
		{name: "stream", most: 3, measure: stream, figures: []figure{
			{title: "1 GiB stream", reach: 0.56, aim: 0.60, sense: atLeast, digits: 3},
			{title: "  RSS growth, worst round", unit: "MiB", reach: 16, sense: atMost, digits: 1, worst: true}}},
		{name: "single", measure: single(items(hostMatched, 1)), figures: []figure{
			{title: "added p50 at one connection, matched", unit: "µs", reach: 350, aim: 220, sense: atMost}}},
		{name: "tunnel", most: 3, measure: idleTunnels, figures: []figure{
			{title: "idle intercepted tunnel, resident for each of 2,000", unit: "KiB", reach: 42, aim: 30, sense: atMost, digits: 1}}},
		{name: "events", measure: eventDelay, figures: []figure{
			{title: "SSE, 50 streams, added delay p50", unit: "ms", reach: 0.15, aim: 0.1, sense: atMost, digits: 3},
			{title: "  added delay p99", unit: "ms", reach: 2.5, aim: 1, sense: atMost, digits: 3}}},
		{name: "many", most: 2, measure: errorsOf(items(hostMatched, 128)), figures: []figure{
			{title: "128 connections: errors", reach: 0, sense: atMost, worst: true}}},
		{name: "isolate", most: 3, measure: isolation(items(hostMatched, 32)), figures: []figure{
			{title: "run --isolate: starts later than run", unit: "ms", reach: 60, sense: atMost, digits: 1},
			{title: "  its rate to that of run, 32 connections, matched", reach: 0.95, sense: atLeast, digits: 3}}},
		{name: "version", measure: startUp, figures: []figure{
			{title: "kimbap version over a bare Go program", unit: "ms", reach: 6, sense: atMost, digits: 1}}},
		{name: "fsync", measure: oneFsync, figures: []figure{
			{title: "one fsync of 4 KiB on this disk", unit: "µs", sense: shown}}},
	}, slices.Concat(doorRows(items(hostMatched, 32)), catalogueRows(), scriptRows())...)
}

// errOldProtocol is a proxy that does not offer HTTP/2.
var errOldProtocol = errors.New("proxy spoke HTTP/1.1")

// pair runs a job directly and through p, one after the other; which comes
// first changes from round to round.
func (r *rig) pair(t *testing.T, p *proxyProcess, j job, round int) (direct, through loadResult, err error) {
	run := func(to *loadResult, by *proxyProcess) {
		result, failed := r.load(t, by, j)
		*to, err = result, errors.Join(err, failed)
	}
	if round%2 == 0 {
		run(&direct, nil)
	}
	run(&through, p)
	if round%2 != 0 {
		run(&direct, nil)
	}
	switch {
	case err != nil:
	case j.Kind == "h2" && direct.Protocol != protocolH2:
		err = errors.New("the upstream of the benchmark does not speak HTTP/2")
	case j.Kind == "h2" && through.Protocol != protocolH2:
		err = errOldProtocol
	case direct.Requests == 0 || through.Requests == 0:
		err = fmt.Errorf("nothing was measured: %d requests directly, %d through the proxy", direct.Requests, through.Requests)
	}
	return direct, through, err
}

func (l loadResult) rate() float64 { return float64(l.Requests) / l.Elapsed.Seconds() }

// mib and micros are for people.
func mib(bytes int) float64            { return float64(bytes) / (1 << 20) }
func micros(nanos int64) float64       { return float64(nanos) / 1e3 }
func millis(nanos int64) float64       { return float64(nanos) / 1e6 }
func toDirect(d, p loadResult) float64 { return p.rate() / d.rate() }

// multiplexed is ratioOf for streams of HTTP/2: sixteen on a connection, as the bar was
// measured, and then all on one.
func multiplexed(j job) measure {
	return func(t *testing.T, r *rig, round int) (found []float64, err error) {
		for _, j.Each = range []int{16, j.Connections} {
			figures, err := ratioOf(j)(t, r, round)
			if err != nil {
				return nil, err
			}
			found = append(found, figures...)
		}
		return found, nil
	}
}

// ratioOf is, of each job, requests per second through the proxy to those without it.
func ratioOf(jobs ...job) measure {
	return func(t *testing.T, r *rig, round int) (found []float64, err error) {
		for _, j := range jobs {
			direct, through, err := r.pair(t, r.shared(t), j, round)
			if err != nil {
				return nil, err
			}
			t.Logf("direct %.0f/s, through kimbap %.0f/s", direct.rate(), through.rate())
			found = append(found, toDirect(direct, through))
		}
		return found, nil
	}
}

// matched is the ratio, and what it costs the proxy.
func matched(j job) measure {
	return func(t *testing.T, r *rig, round int) ([]float64, error) {
		direct, through, err := r.pair(t, r.shared(t), j, round)
		if err != nil {
			return nil, err
		}
		t.Logf("direct %.0f/s, through kimbap %.0f/s", direct.rate(), through.rate())
		return []float64{
			toDirect(direct, through), micros(through.Processor.Nanoseconds()) / float64(through.Requests),
			micros(through.P50 - direct.P50), micros(through.P99 - direct.P99), mib(through.After),
		}, nil
	}
}

// single is what one request at a time waits for: the durable intent, mostly.
func single(j job) measure {
	return func(t *testing.T, r *rig, round int) ([]float64, error) {
		direct, through, err := r.pair(t, r.shared(t), j, round)
		return []float64{micros(through.P50 - direct.P50)}, err
	}
}

// hostsPerRound is how many hosts are met for the first time in one round.
const hostsPerRound = 300

// firstContact is a connection and a request to a host nobody asked for before.
func firstContact(t *testing.T, r *rig, round int) ([]float64, error) {
	p := r.manyHosts(t, hostsPerRound*r.rounds)
	j := job{Kind: "hosts", Path: "/items/1", Connections: 8, FirstHost: hostsPerRound * round, Hosts: hostsPerRound}
	direct, through, err := r.pair(t, p, j, round)
	if err != nil {
		return nil, err
	}
	t.Logf("direct %.0f/s, through kimbap %.0f/s", direct.rate(), through.rate())
	return []float64{toDirect(direct, through)}, nil
}

// streamPath is a body of 1 GiB.
const streamPath = "/bytes/1073741824"

// stream is how fast one large body comes, and what a proxy that has done
// nothing before needs to hold of it.
func stream(t *testing.T, r *rig, round int) ([]float64, error) {
	p := r.proxy(t)
	defer p.stop()
	time.Sleep(2 * time.Second)                        // it has given back by then what its start needed,
	p.check(t, "https://"+hostMatched, p.caFile, true) // and has taken what any request needs
	direct, through, err := r.pair(t, p, job{Kind: "stream", Host: hostMatched, Path: streamPath}, round)
	if err != nil {
		return nil, err
	}
	t.Logf("direct %.0f MiB/s, through kimbap %.0f MiB/s", 1024*direct.rate(), 1024*through.rate())
	return []float64{toDirect(direct, through), mib(through.Peak - through.Before)}, nil
}

// idleMemory is what a proxy holds that nobody has used yet.
func idleMemory(t *testing.T, r *rig, _ int) ([]float64, error) {
	p := r.proxy(t)
	defer p.stop()
	time.Sleep(3 * time.Second) // by then what the start needed is given back
	bytes, err := resident(p.pid)
	return []float64{mib(bytes)}, err
}

// tunnelsHeld is how many idle tunnels are open at once.
const tunnelsHeld = 2000

// idleTunnels is what a tunnel costs through which nothing goes any more.
func idleTunnels(t *testing.T, r *rig, _ int) ([]float64, error) {
	p := r.proxy(t)
	defer p.stop()
	held, err := r.load(t, p, job{Kind: "idle", Host: hostMatched, Path: "/items/1", Connections: tunnelsHeld})
	if err == nil && held.Requests != tunnelsHeld {
		err = fmt.Errorf("%d of %d tunnels are open", held.Requests, tunnelsHeld)
	}
	return []float64{float64(held.After-held.Before) / 1024 / tunnelsHeld}, err
}

// eventDelay is how much later an event arrives.
func eventDelay(t *testing.T, r *rig, round int) ([]float64, error) {
	j := job{Kind: "events", Host: hostMatched, Path: "/events", Connections: 50, Window: benchWindow}
	direct, through, err := r.pair(t, r.shared(t), j, round)
	return []float64{millis(through.P50 - direct.P50), millis(through.P99 - direct.P99)}, err
}

// errorsOf is how many connections broke.
func errorsOf(j job) measure {
	return func(t *testing.T, r *rig, _ int) ([]float64, error) {
		result, err := r.load(t, r.shared(t), j)
		if err != nil {
			t.Log(err)
		}
		if result.Requests == 0 {
			return nil, fmt.Errorf("no request was answered: %w", err)
		}
		return []float64{float64(result.Errors)}, nil
	}
}

// startUp compares `kimbap version` with a Go program that does nothing.
func startUp(t *testing.T, r *rig, _ int) ([]float64, error) {
	bare, err := r.bare()
	if err != nil {
		return nil, err
	}
	var added []float64
	for range 20 {
		without, err := lifetime(bare)
		with, err2 := lifetime(r.kimbap, "version")
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		added = append(added, millis((with - without).Nanoseconds()))
	}
	return []float64{median(added)}, nil
}

// bare builds a Go program that does nothing.
func (r *rig) bare() (program string, err error) {
	source, program := filepath.Join(r.dir, "bare.go"), filepath.Join(r.dir, "bare")
	if err := os.WriteFile(source, []byte("package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"bare\") }\n"), 0o600); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

func lifetime(name string, args ...string) (time.Duration, error) {
	start := time.Now()
	err := exec.Command(name, args...).Run()
	return time.Since(start), err
}

// oneFsync is how long the disk of the homes takes to keep something.
func oneFsync(t *testing.T, r *rig, _ int) ([]float64, error) {
	f, err := os.Create(filepath.Join(r.dir, "fsync"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var took []float64
	for range 50 {
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, micros(time.Since(start).Nanoseconds()))
	}
	return []float64{median(took)}, nil
}
