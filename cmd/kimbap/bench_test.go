//go:build bench

package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// The figures of `make bench`: kimbap as its users run it, in a process of its
// own, beside a direct connection to the same upstream in the same round. Ratios
// are what counts; absolute numbers belong to the machine. Start reading at
// rows(), which is the table.

// benchWindow is how long one load lasts.
const benchWindow = time.Second

// usualRounds is how often each row is measured. The rounds of a row lie apart,
// so that a disturbance meets few of them.
const usualRounds = 5

// row is one thing that is done, and the figures it gives.
type row struct {
	name    string // in BENCH=
	most    int    // rounds at most; 0: as many as asked
	figures []figure
	measure measure
}

// measure does a row once and returns a value for each figure. An error is a
// row that is missed, whatever was measured.
type measure func(t *testing.T, r *rig, round int) ([]float64, error)

// figure is one line of the table.
type figure struct {
	title, unit string // without a unit: to direct, or a count
	reach, aim  float64
	sense       sense
	digits      int  // after the point
	worst       bool // of the rounds, not their median
}

// sense says on which side of its bar a figure should be.
type sense string

const (
	atLeast sense = ">="
	atMost  sense = "<="
	shown   sense = "" // no bar
)

// The verdicts. There is one rule: a figure on the right side of its bar is ok,
// and the run fails when one with a bar is not.
const (
	verdictOK    = "ok"
	verdictBelow = "below reach"
	verdictShown = "shown"
)

// line is a figure with what was measured, as BENCH_JSON has it.
type line struct {
	Row     string    `json:"row"`
	Title   string    `json:"title"`
	Unit    string    `json:"unit,omitempty"`
	Figure  *float64  `json:"figure"` // null: see the note
	Reach   *float64  `json:"reach,omitempty"`
	Aim     float64   `json:"aim,omitempty"`
	Sense   sense     `json:"sense,omitempty"`
	Verdict string    `json:"verdict"`
	Note    string    `json:"note,omitempty"`
	Rounds  []float64 `json:"rounds,omitempty"`

	digits int
}

func TestBench(t *testing.T) {
	kimbap := os.Getenv("KIMBAP_BIN")
	if kimbap == "" {
		t.Fatal("KIMBAP_BIN is not set: run this through `make bench`")
	}
	wanted, err := chosen(rows(), os.Getenv("BENCH"))
	if err != nil {
		t.Fatal(err)
	}
	rounds := usualRounds
	if text := os.Getenv("BENCH_ROUNDS"); text != "" {
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 || rounds > 50 {
			t.Fatalf("BENCH_ROUNDS is %q: write a number from 1 to 50", text)
		}
	}
	rig := startRig(t, kimbap, rounds)
	before := processors(t, rig.pids)
	lines := measureAll(t, rig, wanted)
	disturbed := others(before, processors(t, rig.pids))
	fmt.Printf("\n%s\n%s\n\n", table(lines), disturbance(disturbed))
	if file := os.Getenv("BENCH_JSON"); file != "" {
		if err := writeJSON(file, rounds, disturbed, lines); err != nil {
			t.Fatal(err)
		}
	}
	var missed []string
	for _, l := range lines {
		if l.Verdict == verdictBelow {
			missed = append(missed, strings.TrimSpace(l.Title))
		}
	}
	if len(missed) > 0 {
		t.Errorf("below reach: %s", strings.Join(missed, "; "))
	}
}

// chosen picks the rows whose names are listed, all of them when none is.
func chosen(all []row, list string) ([]row, error) {
	if list == "" {
		return all, nil
	}
	var names []string
	for _, r := range all {
		names = append(names, r.name)
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("BENCH: there is no row %q; the rows are %s", name, strings.Join(names, ","))
		}
	}
	return slices.DeleteFunc(all, func(r row) bool { return !slices.Contains(wanted, r.name) }), nil
}

// measureAll goes through the rows round by round. A row that failed once is
// not tried again.
func measureAll(t *testing.T, r *rig, wanted []row) []line {
	values, failed := make([][][]float64, len(wanted)), make([]error, len(wanted))
	for round := range r.rounds {
		for i, w := range wanted {
			if failed[i] != nil || w.most > 0 && round >= w.most {
				continue
			}
			begun := time.Now()
			one, err := w.measure(t, r, round)
			if failed[i] = err; err == nil {
				values[i] = append(values[i], one)
			}
			t.Logf("round %d, %s: %.3v in %.1f s", round+1, w.name, one, time.Since(begun).Seconds())
		}
	}
	var lines []line
	for i, w := range wanted {
		for k, f := range w.figures {
			var own []float64
			for _, one := range values[i] {
				own = append(own, one[k])
			}
			lines = append(lines, f.judge(w.name, own, failed[i]))
		}
	}
	return lines
}

// judge makes a line of what the rounds gave.
func (f figure) judge(row string, rounds []float64, failed error) line {
	l := line{Row: row, Title: f.title, Unit: f.unit, Aim: f.aim, Sense: f.sense, Verdict: verdictBelow, Rounds: rounds, digits: f.digits}
	if f.sense != shown {
		l.Reach = &f.reach
	}
	if failed != nil {
		l.Note = strings.ReplaceAll(failed.Error(), "\n", "; ")
		return l
	}
	value := median(rounds)
	if f.worst && f.sense == atMost {
		value = slices.Max(rounds)
	} else if f.worst {
		value = slices.Min(rounds)
	}
	l.Figure = &value
	switch {
	case f.sense == shown:
		l.Verdict = verdictShown
	case f.sense == atLeast && value >= f.reach, f.sense == atMost && value <= f.reach:
		l.Verdict = verdictOK
	}
	return l
}

// number writes v with so many digits after the point; -1: as many as it has.
func (l line) number(v float64, digits int) string {
	return strings.TrimSpace(strconv.FormatFloat(v, 'f', digits, 64) + " " + l.Unit)
}

func (l line) measured() string {
	if l.Figure == nil {
		return "none"
	}
	return l.number(*l.Figure, l.digits)
}

func (l line) bar() string {
	if l.Reach == nil {
		return ""
	}
	return string(l.Sense) + " " + l.number(*l.Reach, -1)
}

// table is the lines for people.
func table(lines []line) string {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ROW\tFIGURE\tMEASURED\tBAR\tAIM\tVERDICT")
	for _, l := range lines {
		aim, verdict := "", l.Verdict
		if l.Aim > 0 {
			aim = l.number(l.Aim, -1)
		}
		if l.Note != "" {
			verdict += ": " + l.Note
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Row, l.Title, l.measured(), l.bar(), aim, verdict)
	}
	_ = w.Flush()
	return out.String()
}

// writeJSON writes the lines for programs.
func writeJSON(file string, rounds int, disturbed float64, lines []line) error {
	var data bytes.Buffer
	out := json.NewEncoder(&data)
	out.SetEscapeHTML(false) // ">=" as it is
	out.SetIndent("", "  ")
	err := out.Encode(struct {
		Date   string  `json:"date"`
		Rounds int     `json:"rounds"`
		Others float64 `json:"others"` // part of the processors that somebody else used
		Rows   []line  `json:"rows"`
	}{time.Now().Format(time.DateOnly), rounds, disturbed, lines})
	if err != nil {
		return err
	}
	return os.WriteFile(file, data.Bytes(), 0o644)
}

// median is the middle value; of an even number, the mean of the two in the middle.
func median(list []float64) float64 {
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}
