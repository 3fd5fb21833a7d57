//go:build bench

package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ofRun is a job's proxy, or roots, that the program finds in the environment
// which kimbap run gives it; byName is an upstream that is looked up.
const (
	ofRun  = "of the run"
	byName = "by name"
)

// inRun takes the places of a job from the environment of a run.
func (j *job) inRun() {
	if j.Proxy == ofRun {
		j.Proxy = strings.TrimPrefix(os.Getenv("HTTPS_PROXY"), "http://")
	}
	if j.Roots == ofRun {
		j.Roots = os.Getenv("SSL_CERT_FILE")
	}
	if j.Upstream == byName {
		j.Upstream = j.Host + ":443"
	}
}

// isolation compares a run that is isolated, by a client that knows of no proxy,
// with one that is not, by a client that does: how much later it starts, and how
// much goes through it.
func isolation(j job) measure {
	return func(t *testing.T, r *rig, round int) ([]float64, error) {
		home := r.shared(t).home
		later, err := r.startsLater(home)
		if err != nil {
			return nil, err
		}
		var rates [2]float64
		for i := range rates {
			isolated := (i + round) % 2
			j := j
			j.Roots, j.Proxy = ofRun, ofRun
			if isolated == 1 {
				j.Proxy, j.Upstream = "", byName
			}
			result, err := r.loadInRun(home, isolated == 1, j)
			if err != nil {
				return nil, err
			}
			rates[isolated] = result.rate()
		}
		t.Logf("not isolated %.0f/s, isolated %.0f/s", rates[0], rates[1])
		return []float64{later, rates[1] / rates[0]}, nil
	}
}

// starts is how often each kind of run is started in a round.
const starts = 10

// startsLater is by how much, in milliseconds, at the median.
func (r *rig) startsLater(home string) (float64, error) {
	var added []float64
	for range starts {
		without, err := r.lifetime(home)
		with, err2 := r.lifetime(home, "--isolate")
		if err := errors.Join(err, err2); err != nil {
			return 0, err
		}
		added = append(added, with-without)
	}
	return median(added), nil
}

func (r *rig) lifetime(home string, how ...string) (float64, error) {
	took, err := lifetime("/usr/bin/env", append(append([]string{"KIMBAP_HOME=" + home, r.kimbap, "-q", "run"}, how...), "--", "true")...)
	return millis(took.Nanoseconds()), err
}

// loadInRun runs one job as the program of a run.
func (r *rig) loadInRun(home string, isolated bool, j job) (loadResult, error) {
	task, err := json.Marshal(j)
	if err != nil {
		return loadResult{}, err
	}
	argv := []string{"-q", "run"}
	if isolated {
		argv = append(argv, "--isolate")
	}
	// kimbap takes its own variables away from programs.
	argv = append(argv, "--", "/usr/bin/env", "KIMBAP_BENCH=load", "KIMBAP_BENCH_JOB="+string(task), r.self, "-test.run=^TestBenchLoad$")
	cmd := exec.Command(r.kimbap, argv...)
	cmd.Env = append(os.Environ(), "KIMBAP_HOME="+home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return loadResult{}, fmt.Errorf("load in a run: %w: %s%s", err, out, stderr.String())
	}
	var result loadResult
	line, _, _ := strings.Cut(string(out), "\n")
	if err := json.Unmarshal([]byte(line), &result); err != nil {
		return result, fmt.Errorf("load in a run said %q: %w", out, err)
	}
	if result.Errors > 0 || result.Requests == 0 {
		return result, fmt.Errorf("%d %w: %s", result.Errors, errFailed, result.FirstError)
	}
	return result, nil
}
