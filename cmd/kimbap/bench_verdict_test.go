//go:build bench

package main_test

import (
	"errors"
	"testing"
)

// The verdict is the part of the benchmark that gates: it is ok on the right
// side of the bar, the bar itself included, and never after a failure.
func TestBenchVerdict(t *testing.T) {
	ratio := figure{title: "ratio", reach: 0.26, aim: 0.4, sense: atLeast}
	delay := figure{title: "delay", unit: "µs", reach: 350, sense: atMost}
	growth := figure{title: "growth", reach: 16, sense: atMost, worst: true}
	for _, c := range []struct {
		name   string
		figure figure
		rounds []float64
		failed error
		want   string
		value  float64
	}{
		{"a ratio at its bar", ratio, []float64{0.26}, nil, verdictOK, 0.26},
		{"a ratio below its bar", ratio, []float64{0.3, 0.259, 0.1}, nil, verdictBelow, 0.259},
		{"one bad round of three", ratio, []float64{0.3, 0.1, 0.31}, nil, verdictOK, 0.3},
		{"an even number of rounds", ratio, []float64{0.2, 0.3}, nil, verdictBelow, 0.25},
		{"a delay at its bar", delay, []float64{350}, nil, verdictOK, 350},
		{"a delay above its bar", delay, []float64{351}, nil, verdictBelow, 351},
		{"one bad round where the worst counts", growth, []float64{1, 17, 1}, nil, verdictBelow, 17},
		{"a failure after good rounds", ratio, []float64{0.3, 0.3}, errors.New("reset"), verdictBelow, -1},
		{"a figure without a bar", figure{sense: shown}, []float64{7}, nil, verdictShown, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := c.figure.judge("row", c.rounds, c.failed)
			if l.Verdict != c.want {
				t.Errorf("verdict %q, want %q", l.Verdict, c.want)
			}
			switch {
			case c.failed != nil:
				if l.Figure != nil || l.Note != c.failed.Error() {
					t.Errorf("measured %s, note %q, want the failure alone", l.measured(), l.Note)
				}
			case l.Figure == nil || *l.Figure != c.value:
				t.Errorf("figure %s, want %v", l.measured(), c.value)
			}
		})
	}
}

func TestBenchChoosesRowsByName(t *testing.T) {
	if all, err := chosen(rows(), ""); err != nil || len(all) != len(rows()) {
		t.Errorf("no name: %d rows, %v", len(all), err)
	}
	some, err := chosen(rows(), "h2,matched")
	if err != nil || len(some) != 2 || some[0].name != "matched" || some[1].name != "h2" {
		t.Errorf("two names: %v, %v", some, err)
	}
	if _, err := chosen(rows(), "matched,h3"); err == nil {
		t.Error("an unknown row was accepted")
	}
}
