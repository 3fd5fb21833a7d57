//go:build bench

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// doorRows are the figures of kimbap's other entrances, each beside the proxy's own
// or that of a program that does nothing.
func doorRows(j job) []row {
	return []row{
		{name: "serve", measure: served(j), figures: []figure{
			{title: "serve to proxy, 32 connections, matched", reach: 0.8, aim: 1, sense: atLeast, digits: 3},
			{title: "  serve CPU per request", unit: "µs", sense: shown},
			{title: "  proxy CPU per request", unit: "µs", sense: shown}}},
		{name: "daemon", most: 3, measure: daemonCall, figures: []figure{
			{title: "kimbap call through the daemon, from its start to its end, p50", unit: "ms", reach: 12, sense: atMost, digits: 1},
			{title: "  a bare Go program, p50", unit: "ms", sense: shown, digits: 1},
			{title: "  the same request by a client that runs already, p50", unit: "ms", sense: shown, digits: 1}}},
	}
}

// apiProcess is kimbap serve over the home of the shared proxy.
type apiProcess struct {
	address, token string
	pid            int
}

func (r *rig) serve(t *testing.T) *apiProcess {
	t.Helper()
	if r.api == nil {
		home := r.shared(t).home
		a := &apiProcess{token: strings.TrimSpace(r.run(t, home, "", "token", "create", "--agent", "bench", "--scope", "*"))}
		a.address, a.pid, _ = startProcess(t, exec.Command(r.kimbap, "serve", "--listen", "127.0.0.1:0"), "KIMBAP_HOME="+home)
		r.pids = append(r.pids, a.pid)
		r.api = a
	}
	return r.api
}

// served is requests per second of kimbap serve to those of the proxy: the same
// action of the same upstream, from as many connections.
func served(j job) measure {
	return func(t *testing.T, r *rig, round int) ([]float64, error) {
		p, api := r.shared(t), r.serve(t)
		asked := j
		asked.Serve, asked.Token = api.address, api.token
		asked.Path, asked.Body = "/v1/actions/bench/get-item:execute", `{"input":{"id":"1"}}`
		var proxied, served loadResult
		var err error
		for i := range 2 {
			var failed error
			if (i+round)%2 == 0 {
				proxied, failed = r.load(t, p, j)
			} else {
				served, failed = r.load(t, &proxyProcess{caFile: p.caFile, pid: api.pid}, asked)
			}
			err = errors.Join(err, failed)
		}
		if err != nil {
			return nil, err
		}
		t.Logf("proxy %.0f/s, serve %.0f/s", proxied.rate(), served.rate())
		cost := func(l loadResult) float64 { return micros(l.Processor.Nanoseconds()) / float64(l.Requests) }
		return []float64{served.rate() / proxied.rate(), cost(served), cost(proxied)}, nil
	}
}

// daemonCall is what a person at a terminal, or a script, waits for with a daemon.
func daemonCall(t *testing.T, r *rig, _ int) ([]float64, error) {
	home := r.shared(t).home
	stop, err := r.daemon(home)
	if err != nil {
		return nil, err
	}
	defer stop()
	bare, err := r.bare()
	if err != nil {
		return nil, err
	}
	client := unixClient(filepath.Join(home, "daemon.sock"))
	defer client.CloseIdleConnections()
	var whole, none, warm []float64
	for i := range 42 {
		cmd := exec.Command(r.kimbap, "call", "bench.get-item", "--id", "1")
		cmd.Env = append(os.Environ(), "KIMBAP_HOME="+home, "KIMBAP_BIN=")
		start := time.Now()
		out, err := cmd.Output()
		took := time.Since(start)
		if err != nil || !strings.HasPrefix(string(out), `{"id":"1"`) {
			return nil, fmt.Errorf("kimbap call: %q, %w", out, err)
		}
		without, err := lifetime(bare)
		if err != nil {
			return nil, err
		}
		start = time.Now()
		answer, err := client.Post("http://localhost/call", "application/json", strings.NewReader(`{"action":"bench.get-item","input":{"id":"1"},"raw":true}`))
		if err != nil {
			return nil, err
		}
		_ = answer.Body.Close()
		if i < 2 { // the first ones find nothing warm
			continue
		}
		whole, none, warm = append(whole, millis(took.Nanoseconds())), append(none, millis(without.Nanoseconds())), append(warm, millis(time.Since(start).Nanoseconds()))
	}
	return []float64{median(whole), median(none), median(warm)}, nil
}

// daemon starts one over a home and waits for its socket.
func (r *rig) daemon(home string) (stop func(), err error) {
	cmd := exec.Command(r.kimbap, "daemon")
	cmd.Env = append(os.Environ(), "KIMBAP_HOME="+home, "KIMBAP_BIN=")
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop = func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(home, "daemon.sock")); err == nil {
			return stop, nil
		}
	}
	stop()
	return nil, errors.New("the daemon did not start")
}
