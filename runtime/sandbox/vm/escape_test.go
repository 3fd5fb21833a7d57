package vm_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// escape is one case of testdata/*.jsonl: what a script tries, and how it may end. A code
// of many repetitions is written as code, then unit so many times, then the rest.
type escape struct {
	ID       string   `json:"id"`
	Category string   `json:"category"`
	Expect   []string `json:"expect"`  // any of reject, throw, limit, harmless
	Value    any      `json:"value"`   // of a harmless one
	Forbid   string   `json:"forbid"`  // what a harmless one's value must not say
	Process  bool     `json:"process"` // only a process of its own can hold it
	Code     string   `json:"code"`
	Unit     string   `json:"unit"`
	Times    int      `json:"times"`
	Rest     *escape  `json:"rest"`
}

func (e *escape) source() string {
	if e == nil {
		return ""
	}
	return e.Code + strings.Repeat(e.Unit, e.Times) + e.Rest.source()
}

// ended is how a run ended, in the words of the cases.
func ended(d frame.Done) string {
	switch {
	case d.Failure == nil:
		return "harmless"
	case d.Failure.Kind == frame.KindRejected:
		return "reject"
	case d.Failure.Kind == frame.KindException:
		return "throw"
	}
	return "limit"
}

func escapes(t *testing.T) []escape {
	t.Helper()
	var list []escape
	for _, name := range []string{"escapes.jsonl", "more.jsonl", "builtins.jsonl", "odd.jsonl"} {
		file, err := os.Open(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e escape
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Fatalf("%s: %v in %.100s", name, err, lines.Text())
			}
			list = append(list, e)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

func TestNoScriptGetsOut(t *testing.T) {
	for _, e := range escapes(t) {
		if e.Process {
			continue // package worker runs all of them
		}
		t.Run(e.ID, func(t *testing.T) {
			t.Parallel()
			deadline := 30 * time.Second
			if slices.Contains(e.Expect, "limit") {
				deadline = 700 * time.Millisecond
			}
			done := run(t, e.source(), newHost(), deadline)
			if how := ended(done); !slices.Contains(e.Expect, how) {
				t.Fatalf("ended as %s, want one of %v: %+v %s", how, e.Expect, done.Failure, done.Value)
			}
			if done.Failure != nil {
				if leak := goWords.FindString(done.Failure.Message + done.Failure.Stack); leak != "" {
					t.Errorf("the failure speaks of the host: %q in %+v", leak, *done.Failure)
				}
				return
			}
			var value any
			_ = json.Unmarshal([]byte(done.Value), &value)
			if e.Value != nil && !reflect.DeepEqual(value, e.Value) {
				t.Errorf("returned %s, want %v", done.Value, e.Value)
			}
			if e.Forbid != "" && regexp.MustCompile(e.Forbid).MatchString(done.Value) {
				t.Errorf("returned %s", done.Value)
			}
			if leak := goWords.FindString(done.Value); leak != "" {
				t.Errorf("the value speaks of the host: %q in %s", leak, done.Value)
			}
		})
	}
}

// goWords are signs of Go or of the host's files in what a script can see.
var goWords = regexp.MustCompile(`goja|github\.com|kimbap-run|\.go:|runtime error|0xc0|&\{|/root|/home|/tmp|goroutine|regexp2|\(re2\)|json\.`)
