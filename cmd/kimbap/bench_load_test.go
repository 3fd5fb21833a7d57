//go:build bench

package main_test

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// job is what a load process does. It arrives as JSON in the environment.
type job struct {
	Kind        string // keep, new, hosts, stream, events, h2 or idle
	Proxy       string // its address; "": straight to the upstream
	Upstream    string // its address
	Roots       string // file of the certificates to trust
	Host, Path  string
	Clear       bool   // http, not https
	Serve       string // address of a kimbap serve that is asked instead: Path is a page of its API
	Token, Body string // for it
	Connections int    // at once; for h2 streams
	Each        int    // with h2: streams of one connection
	Window      time.Duration
	FirstHost   int // with hosts: the numbers of the hosts to meet
	Hosts       int
	PID         int // the proxy's, whose time and memory are read; 0: nobody's

	roots *x509.CertPool
}

// loadResult is what a load process says, as one line of JSON. Times are in
// nanoseconds, sizes in bytes.
type loadResult struct {
	Requests, Errors    int
	Elapsed             time.Duration
	P50, P99            int64         // of a request; with events of an event's way
	Processor           time.Duration // used by the proxy meanwhile
	Before, Peak, After int           // resident memory of the proxy
	Protocol            string        // with h2: what was spoken
	FirstError          string
}

// most is how many connections one job opens in all when each request has its
// own: the ports that are left behind must last for all rounds.
const most = 3000

// fillers is how many connections at once open idle tunnels.
const fillers = 8

// settling is how long idle tunnels are left alone before the memory is read: a
// proxy gives memory back after three quiet seconds.
const settling = 5 * time.Second

func hostNumber(n int) string { return fmt.Sprintf("h%05d.bench.test", n) }

func TestBenchLoad(t *testing.T) {
	if os.Getenv("KIMBAP_BENCH") != "load" {
		t.Skip("a process of TestBench")
	}
	var j job
	if err := json.Unmarshal([]byte(os.Getenv("KIMBAP_BENCH_JOB")), &j); err != nil {
		t.Fatal(err)
	}
	j.inRun()
	roots, err := os.ReadFile(j.Roots)
	if err != nil {
		t.Fatal(err)
	}
	j.roots = x509.NewCertPool()
	j.roots.AppendCertsFromPEM(roots)
	drivers := map[string]func(*job, *loadResult) error{
		"keep": driveKept, "new": driveNew, "hosts": driveNew, "stream": driveStream, "events": driveEvents, "h2": driveH2, "idle": driveIdle,
	}
	var result loadResult
	if err := drivers[j.Kind](&j, &result); err != nil {
		result.Errors++
		result.FirstError = err.Error()
	}
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
}

// start and stop surround what is measured.
func (j *job) start(result *loadResult) time.Time {
	if j.PID != 0 {
		result.Processor, _ = processorTime(j.PID)
		result.Before, _ = resident(j.PID)
	}
	return time.Now()
}

func (j *job) stop(result *loadResult, start time.Time, latencies []int64) {
	result.Elapsed = time.Since(start)
	if j.PID != 0 {
		used, _ := processorTime(j.PID)
		result.Processor = used - result.Processor
		result.After, _ = resident(j.PID)
	}
	result.Requests = len(latencies)
	if slices.Sort(latencies); len(latencies) > 0 {
		result.P50, result.P99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	}
}

// workers runs n of do and gathers what they measured, and their errors.
func (result *loadResult) workers(n int, do func() ([]int64, error)) []int64 {
	var mu sync.Mutex
	var all []int64
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			mine, err := do()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			if err != nil {
				result.Errors++
				result.FirstError = err.Error()
			}
		})
	}
	group.Wait()
	return all
}

// openAll opens the connections of a job, each with one answer behind it when
// warm is set. The caller closes them.
func (j *job) openAll(result *loadResult, parallel int, warm bool) chan *client {
	ready := make(chan *client, j.Connections)
	var taken atomic.Int64
	result.workers(parallel, func() ([]int64, error) {
		for taken.Add(1) <= int64(j.Connections) {
			c, err := j.open(j.Host)
			if err == nil && warm {
				err = c.get()
			}
			if err != nil {
				return nil, err
			}
			ready <- c
		}
		return nil, nil
	})
	close(ready)
	return ready
}

// driveKept sends one request after the other on each of its connections.
func driveKept(j *job, result *loadResult) error {
	ready := j.openAll(result, j.Connections, true)
	start := j.start(result)
	end := start.Add(j.Window)
	j.stop(result, start, result.workers(len(ready), func() (latencies []int64, err error) {
		c := <-ready
		defer c.conn.Close()
		for begun := time.Now(); begun.Before(end); {
			if err := c.get(); err != nil {
				return latencies, err
			}
			now := time.Now()
			latencies = append(latencies, now.Sub(begun).Nanoseconds())
			begun = now
		}
		return latencies, nil
	}))
	return nil
}

// driveNew makes a connection, with a full handshake, for each request. With
// hosts each goes to a host that nobody met before, and the end is that of the
// hosts, not that of the window.
func driveNew(j *job, result *loadResult) error {
	start := j.start(result)
	end := start.Add(j.Window)
	var taken atomic.Int64
	more := func(n int64) bool { return n <= most && time.Now().Before(end) }
	host := func(int64) string { return j.Host }
	if j.Kind == "hosts" {
		more = func(n int64) bool { return n <= int64(j.Hosts) }
		host = func(n int64) string { return hostNumber(j.FirstHost + int(n) - 1) }
	}
	j.stop(result, start, result.workers(j.Connections, func() (latencies []int64, err error) {
		for n := taken.Add(1); more(n); n = taken.Add(1) {
			begun := time.Now()
			c, err := j.open(host(n))
			if err != nil {
				return latencies, err
			}
			if err := errors.Join(c.get(), c.conn.Close()); err != nil {
				return latencies, err
			}
			latencies = append(latencies, time.Since(begun).Nanoseconds())
		}
		return latencies, nil
	}))
	return nil
}

// driveStream reads one large body and watches the proxy's memory meanwhile.
func driveStream(j *job, result *loadResult) error {
	c, err := j.open(j.Host)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	start := j.start(result)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for open := j.PID != 0; open; {
			select {
			case <-done:
				open = false
			case <-time.After(10 * time.Millisecond):
			}
			now, _ := resident(j.PID)
			result.Peak = max(result.Peak, now)
		}
	})
	err = c.get()
	close(done)
	watch.Wait()
	if err == nil {
		j.stop(result, start, []int64{time.Since(start).Nanoseconds()})
	}
	return err
}

// driveEvents follows streams of events and measures how long each event was on
// its way. Those of the time when streams are opened do not count. The streams begin one
// after the other within the time between two events, since an upstream sends from then
// on: whether all fifty send at once would otherwise depend on how long each beginning
// takes, which is long where a connection to the upstream must be opened and short where
// a proxy still has some of an earlier load.
func driveEvents(j *job, result *loadResult) error {
	ready := j.openAll(result, j.Connections, false)
	var begun atomic.Int64
	start := j.start(result).Add(j.Window / 4)
	j.stop(result, start, result.workers(len(ready), func() (delays []int64, err error) {
		c := <-ready
		defer c.conn.Close()
		time.Sleep(time.Duration(begun.Add(1)) * eventEvery / time.Duration(j.Connections))
		if _, err := c.ask(); err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(httputil.NewChunkedReader(c.in))
		for lines.Scan() {
			said, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
			if !ok {
				continue
			}
			now := time.Now()
			sent, err := strconv.ParseInt(string(said), 10, 64)
			if err != nil {
				return delays, err
			}
			if sent >= start.UnixNano() {
				delays = append(delays, now.UnixNano()-sent)
			}
			if now.Sub(start) >= j.Window {
				return delays, nil
			}
		}
		return delays, errors.Join(lines.Err(), io.ErrUnexpectedEOF)
	}))
	return nil
}

// driveIdle opens tunnels, asks once in each and leaves them open.
func driveIdle(j *job, result *loadResult) error {
	first, err := j.open(j.Host)
	if err != nil {
		return err
	}
	defer first.conn.Close()
	if err := first.get(); err != nil {
		return err
	}
	start := j.start(result)
	ready := j.openAll(result, fillers, true)
	time.Sleep(settling)
	j.stop(result, start, nil)
	result.Requests = len(ready)
	for c := range ready {
		c.conn.Close()
	}
	return nil
}
