//go:build bench

package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// scriptRows are the figures of script mode.
func scriptRows() []row {
	return []row{
		{name: "exec", most: 3, measure: coldScript, figures: []figure{
			{title: "kimbap exec of one call, from its start to its end, p50", unit: "ms", reach: 25, sense: atMost, digits: 1},
			{title: "  node -e of the same without the call, p50", unit: "ms", sense: shown, digits: 1}}},
		{name: "script", most: 3, measure: warmScript, figures: []figure{
			{title: "a script of one call on the sidecar, p50", unit: "ms", reach: 5, sense: atMost, digits: 1}}},
		{name: "together", most: 3, measure: togetherScript, figures: []figure{
			{title: "Promise.all of ten calls of 100 ms each", unit: "ms", reach: 130, sense: atMost}}},
		{name: "calls", most: 3, measure: manyCalls, figures: []figure{
			{title: "400 calls one after the other, beyond 400 fsyncs", unit: "ms", reach: 100, sense: atMost},
			{title: "  those fsyncs", unit: "ms", sense: shown}}},
	}
}

// oneCall is the script of most of them.
const oneCall = `return (await tools.bench.getItem({id: "1"})).id`

// coldScript is what a person at a terminal waits for.
func coldScript(t *testing.T, r *rig, _ int) ([]float64, error) {
	p := r.shared(t)
	var cold, node []float64
	for range 25 {
		cmd := exec.Command(r.kimbap, "exec", "-e", oneCall)
		cmd.Env = append(os.Environ(), "KIMBAP_HOME="+p.home)
		start := time.Now()
		out, err := cmd.Output()
		took := time.Since(start)
		if err != nil || string(out) != "1\n" {
			return nil, fmt.Errorf("kimbap exec: %q, %w", out, err)
		}
		cold = append(cold, millis(took.Nanoseconds()))
		with, err := lifetime("node", "-e", `console.log((() => ({id: "1"}).id)())`)
		if err != nil {
			return nil, err
		}
		node = append(node, millis(with.Nanoseconds()))
	}
	return []float64{median(cold), median(node)}, nil
}

// post runs a script on the sidecar of the shared proxy and says how long it took.
func (p *proxyProcess) post(client *http.Client, code string) (time.Duration, error) {
	body, err := json.Marshal(map[string]string{"code": code})
	if err != nil {
		return 0, err
	}
	start := time.Now()
	answer, err := client.Post("http://localhost/v1/exec", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	var result struct {
		Success bool
		Error   string
	}
	err = json.NewDecoder(answer.Body).Decode(&result)
	took := time.Since(start)
	if err == nil && !result.Success {
		err = errors.New(result.Error)
	}
	return took, err
}

func (p *proxyProcess) scripts() *http.Client {
	return unixClient(filepath.Join(p.home, "kimbap.sock"))
}

func unixClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
}

// scriptTimes runs a script n times, with time between for the next process to be
// started ahead.
func scriptTimes(t *testing.T, r *rig, code string, n int) ([]float64, error) {
	p := r.shared(t)
	client := p.scripts()
	defer client.CloseIdleConnections()
	var out []float64
	for i := range n + 2 {
		took, err := p.post(client, code)
		if err != nil {
			return nil, err
		}
		if i >= 2 { // the first ones find nothing warm
			out = append(out, millis(took.Nanoseconds()))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return out, nil
}

func warmScript(t *testing.T, r *rig, _ int) ([]float64, error) {
	took, err := scriptTimes(t, r, oneCall, 25)
	if err != nil {
		return nil, err
	}
	return []float64{median(took)}, nil
}

func togetherScript(t *testing.T, r *rig, _ int) ([]float64, error) {
	took, err := scriptTimes(t, r, `return (await Promise.all([1,2,3,4,5,6,7,8,9,10].map(id => tools.bench.getSlow({id: String(id)})))).length`, 5)
	if err != nil {
		return nil, err
	}
	return []float64{median(took)}, nil
}

// manyCalls compares calls, each of which waits for its intent, with the same
// number of fsyncs of a file beside the ledger.
func manyCalls(t *testing.T, r *rig, _ int) ([]float64, error) {
	const n = 400
	f, err := os.Create(filepath.Join(r.dir, "calls"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	took, err := scriptTimes(t, r, fmt.Sprintf(`for (let i = 0; i < %d; i++) await tools.bench.getItem({id: "1"}); return 1`, n), 1)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	for range n {
		if _, err := f.Write(make([]byte, 1024)); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
	}
	syncs := millis(time.Since(start).Nanoseconds())
	return []float64{median(took) - syncs, syncs}, nil
}
