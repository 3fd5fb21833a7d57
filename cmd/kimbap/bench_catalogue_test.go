//go:build bench

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// catalogueRows are the figures of many services.
func catalogueRows() []row {
	return []row{
		{name: "catalogue", most: 3, measure: coldCatalogue, figures: []figure{
			{title: "the whole catalogue installed: a command starts later by", unit: "ms", reach: 60, sense: atMost, digits: 1}}},
		{name: "classify", most: 3, measure: classification, figures: []figure{
			{title: "classifying one request with 10 services", unit: "ns", reach: 1000, sense: atMost},
			{title: "  with 100", unit: "ns", reach: 1000, sense: atMost},
			{title: "  with 1,000", unit: "ns", reach: 1000, sense: atMost},
			{title: "  allocations with 1,000, of three arguments and their map", reach: 5, sense: atMost}}},
	}
}

// coldCatalogue compares a command over a home that has every service of the
// catalogue with the same over a home that has one: what it adds is reading,
// checking and joining them all, in a process that has done nothing before.
func coldCatalogue(t *testing.T, r *rig, round int) ([]float64, error) {
	one, all := filepath.Join(r.dir, fmt.Sprintf("one-%d", round)), filepath.Join(r.dir, fmt.Sprintf("all-%d", round))
	files, err := filepath.Glob("../../services/catalog/*.yaml")
	if err != nil || len(files) < 50 {
		return nil, fmt.Errorf("%d service files, %w", len(files), err)
	}
	for _, home := range []string{one, all} {
		if out, err := exec.Command(r.kimbap, "--home", home, "init").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, out)
		}
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			data = []byte(strings.ReplaceAll(string(data), "{site}", "acme.example.com"))
			err = os.WriteFile(filepath.Join(all, "services", filepath.Base(file)), data, 0o600)
		}
		if err == nil && filepath.Base(file) == "demo.yaml" {
			err = os.WriteFile(filepath.Join(one, "services", "demo.yaml"), data, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	var added []float64
	for range 20 {
		with, err := lifetime(r.kimbap, "--home", all, "actions", "describe", "demo.whoami")
		without, err2 := lifetime(r.kimbap, "--home", one, "actions", "describe", "demo.whoami")
		if err := errors.Join(err, err2); err != nil {
			return nil, err
		}
		added = append(added, millis((with - without).Nanoseconds()))
	}
	return []float64{median(added)}, nil
}

// classified is a line of BenchmarkClassify.
var classified = regexp.MustCompile(`(?m)^BenchmarkClassify/(10|100|1000)_services\S*\s+\d+\s+([0-9.]+) ns/op\s+\d+ B/op\s+(\d+) allocs/op`)

// classification runs the benchmark beside the code.
func classification(*testing.T, *rig, int) ([]float64, error) {
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", "^BenchmarkClassify$", "-benchtime", "0.3s", "../../services").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var figures []float64
	for _, m := range classified.FindAllStringSubmatch(string(out), -1) {
		ns, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		if figures = append(figures, ns); m[1] == "1000" {
			allocs, err := strconv.ParseFloat(m[3], 64)
			if err != nil {
				return nil, err
			}
			figures = append(figures, allocs)
		}
	}
	if len(figures) != 4 {
		return nil, fmt.Errorf("the benchmark said: %s", out)
	}
	return figures, nil
}
