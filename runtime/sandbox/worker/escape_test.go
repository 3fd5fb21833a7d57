package worker_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// escape is one case of the engine's testdata: a text that tries to get out, or an
// ordinary one, and how it may end: "reject" by the gate, "throw", "limit" (or a
// pause), "harmless". One that spins does nothing but go round, from its first moment, until
// its time is over. A code is followed by its unit so many times, and by the rest.
type escape struct {
	ID     string
	Expect []string
	Value  any    // of a harmless one, nil: any
	Forbid string // what a harmless one's value must not say
	Spins  bool
	Code   string
	Unit   string
	Times  int
	Rest   *escape
}

func (c *escape) source() string {
	if c == nil {
		return ""
	}
	return c.Code + strings.Repeat(c.Unit, c.Times) + c.Rest.source()
}

func escapes(t *testing.T) []escape {
	t.Helper()
	files, err := filepath.Glob("../vm/testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []escape
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			var c escape
			if err := json.Unmarshal(line, &c); err != nil {
				t.Fatalf("%s: %v in %.100s", name, err, line)
			}
			all = append(all, c)
		}
	}
	if len(all) < 162 {
		t.Fatalf("only %d cases", len(all))
	}
	return all
}

// canary is what the demo host knows and no script may see.
const canary = "sk-live-canary-7f3a"

// demo is a host with four tools, as a fake: echo gives its arguments back, sleep
// waits and does the same, fail fails, and danger waits for a person who never comes.
type demo struct {
	p     *worker.Process
	calls map[int]frame.Call
	now   int64
	alarm []*time.Timer
}

var errTool = errors.New("dial tcp: Authorization: Bearer " + canary)

// hear takes one message and answers the calls in it. It reports a pause.
func (d *demo) hear(m *frame.ToHost) (paused bool) {
	if m.Call != nil {
		d.calls[m.Call.Seq] = *m.Call
		d.answer(*m.Call)
	}
	if m.Idle != nil && len(m.Idle.Waiting) > 0 && !m.Idle.Timers {
		return !slices.ContainsFunc(m.Idle.Waiting, func(seq int) bool { return d.calls[seq].Path != "demo.danger" })
	}
	return false
}

func (d *demo) answer(c frame.Call) {
	r := frame.Reply{Seq: c.Seq, Now: d.now, Value: c.Args}
	switch {
	case c.Kind == frame.CallTimer || c.Path == "demo.sleep":
		var args struct{ Ms float64 }
		if ms, err := strconv.ParseFloat(c.Args, 64); err == nil {
			args.Ms = ms
		} else {
			_ = json.Unmarshal([]byte(c.Args), &args)
		}
		wait := time.Duration(min(args.Ms, 10_000)) * time.Millisecond
		d.now += wait.Milliseconds()
		d.alarm = append(d.alarm, time.AfterFunc(wait, func() { _ = d.p.Send(&frame.ToWorker{Reply: &r}) }))
		return
	case c.Path == "demo.danger":
		return
	case c.Path == "demo.fail":
		r.Value, r.Error = "", seen(errTool)
	case c.Path != "demo.echo":
		r.Value, r.Error = "", &frame.ToolError{Tool: "demo", Code: "unknown_action", Message: "there is no such tool"}
	}
	_ = d.p.Send(&frame.ToWorker{Reply: &r})
}

// seen is what a script may know of an error of the host: that there was one.
func seen(error) *frame.ToolError {
	return &frame.ToolError{Tool: "demo.fail", Code: "upstream", Message: "the upstream said no", Status: 502, Retryable: true}
}

// verdict is what became of a script.
type verdict struct {
	outcome string
	value   any
	failure frame.Failure
	said    bytes.Buffer // all that the worker ever said
	took    time.Duration
	end     worker.Ending
}

// execute runs one text in a worker of kimbap.
func execute(t *testing.T, code string, most time.Duration) *verdict {
	t.Helper()
	p, err := worker.Start(worker.Options{Executable: programs.kimbap})
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{p: p, calls: map[int]frame.Call{}, now: 1767323045678}
	begin := time.Now()
	p.Limit(most)
	v := converse(d, code)
	p.Kill()
	v.took, v.end = time.Since(begin), p.Wait()
	for _, a := range d.alarm {
		a.Stop()
	}
	if v.outcome == "" { // it did not say how it ended
		v.outcome, v.failure = "limit", p.Ended()
	}
	return v
}

func converse(d *demo, code string) *verdict {
	v := &verdict{}
	if err := d.p.Send(&frame.ToWorker{Check: &frame.Check{Source: code}}); err != nil {
		return v
	}
	for {
		m, err := d.p.Recv()
		if err != nil {
			return v
		}
		text, _ := json.Marshal(m)
		v.said.Write(text)
		switch {
		case m.Checked != nil && len(m.Checked.Refusals) > 0:
			v.outcome, v.failure = "reject", frame.Failure{Kind: frame.KindRejected, Message: m.Checked.Refusals[0].Message}
			return v
		case m.Checked != nil:
			if d.p.Send(&frame.ToWorker{Run: &frame.Run{Now: d.now, Seed: 1, Limits: limits}}) != nil {
				return v
			}
		case m.Done != nil && m.Done.Failure != nil:
			v.failure = *m.Done.Failure
			v.outcome = map[frame.Kind]string{frame.KindException: "throw", frame.KindRejected: "reject"}[v.failure.Kind]
			if v.outcome == "" {
				v.outcome = "limit"
			}
			return v
		case m.Done != nil:
			v.outcome = "harmless"
			_ = json.Unmarshal([]byte(m.Done.Value), &v.value)
			return v
		case d.hear(m):
			v.outcome, v.failure.Message = "limit", "paused"
			return v
		}
	}
}

// What a script says when it got further than it should have.
var escaped = regexp.MustCompile(`LEAK|GLOBAL|ESCAPED|POISON|HOOKED|evil`)

// hostWords are signs of Go, of the engine or of the host's files.
var hostWords = regexp.MustCompile(`goja|github\.com|kimbap|\.go:|runtime error|0x[0-9a-f]{6}|&\{|/root|/tmp/|goroutine|regexp2|\(re2\)|interface conversion|nil pointer|%!|encoding/|strconv\.|<nil>|<eval>|native\)`)

const (
	escapeTime   = 1500 * time.Millisecond
	spinningTime = 600 * time.Millisecond
	escapeMemory = 300 << 20
)

// time is what a case may take. More of it shows nothing new of one that spins.
func (c escape) time() time.Duration {
	if c.Spins {
		return spinningTime
	}
	return escapeTime
}

// kinds are those of docs/script-mode.md.
var kinds = []frame.Kind{
	"", frame.KindRejected, frame.KindException, frame.KindTimeout, frame.KindMemory, frame.KindStack, frame.KindCalls, frame.KindDeadlock, frame.KindInterrupted,
}

// judge says what is wrong with what became of a case.
func (c escape) judge(v *verdict, limit time.Duration) error {
	line, column := v.failure.Line, v.failure.Column
	rows := strings.Split(c.source(), "\n")
	switch text, _ := json.Marshal(v.value); {
	case !slices.Contains(c.Expect, v.outcome):
		return fmt.Errorf("%s (%+v), want %s", v.outcome, v.failure, strings.Join(c.Expect, " or "))
	case escaped.Match(text):
		return fmt.Errorf("it came out with %s", text)
	case v.outcome == "harmless" && c.Value != nil && !reflect.DeepEqual(v.value, c.Value):
		return fmt.Errorf("its value is %s, want %v", text, c.Value)
	case v.outcome == "harmless" && c.Forbid != "" && regexp.MustCompile(c.Forbid).Match(text):
		return fmt.Errorf("its value says what it must not: %s", text)
	case hostWords.MatchString(v.failure.Message + v.failure.Stack + string(text)):
		return fmt.Errorf("it speaks of the host: %+v %s", v.failure, text)
	case line < 0 || line > len(rows) || line > 0 && (column < 1 || column > len(rows[line-1])+1):
		return fmt.Errorf("%d:%d is no place of it", line, column)
	case !slices.Contains(kinds, v.failure.Kind):
		return fmt.Errorf("its end is of the kind %q", v.failure.Kind)
	case v.end.Violation:
		return fmt.Errorf("it broke the rules: %+v", v.end)
	case bytes.Contains(v.said.Bytes(), []byte(canary)):
		return errors.New("it saw the secret")
	case v.end.PeakRSS > escapeMemory:
		return fmt.Errorf("it took %d MiB", v.end.PeakRSS>>20)
	case v.took > limit+time.Second:
		return fmt.Errorf("it took %v", v.took)
	case c.Spins && v.said.Len() == 0:
		return errors.New("it never began")
	case c.Spins && v.failure.Kind != frame.KindTimeout:
		return fmt.Errorf("it does not spin: %+v", v.failure)
	}
	return nil
}

func TestNoScriptEscapes(t *testing.T) {
	work := make(chan escape)
	var mu sync.Mutex
	slowest := &verdict{}
	var slow, fat string
	var most int64
	var two sync.WaitGroup
	for range 2 {
		two.Go(func() {
			for c := range work {
				limit := c.time()
				v := execute(t, c.source(), limit)
				if c.Spins && v.said.Len() == 0 { // on a busy machine so short a time is over before it begins
					limit = escapeTime
					v = execute(t, c.source(), limit)
				}
				if v.failure.Kind == frame.KindTimeout && !slices.Contains(c.Expect, "limit") { // nor may another end
					limit = 30 * time.Second
					v = execute(t, c.source(), limit)
				}
				if err := c.judge(v, limit); err != nil {
					t.Errorf("%s: %v", c.ID, err)
				}
				mu.Lock()
				if v.took > slowest.took {
					slowest, slow = v, c.ID
				}
				if v.end.PeakRSS > most {
					most, fat = v.end.PeakRSS, c.ID
				}
				mu.Unlock()
			}
		})
	}
	all := escapes(t)
	for _, c := range all {
		work <- c
	}
	close(work)
	two.Wait()
	t.Logf("%d cases; the slowest, %s, took %v; the largest, %s, %d MiB", len(all), slow, slowest.took, fat, most>>20)
}

func TestOrdinaryScriptsRunInAWorker(t *testing.T) {
	for code, want := range map[string]any{
		"return (await Promise.all([1,2,3].map(n => tools.demo.echo({n})))).map(r => r.n)":  []any{1.0, 2.0, 3.0},
		"await tools.demo.sleep({ms: 20}); return 'slept'":                                  "slept",
		"await new Promise(r => setTimeout(r, 20)); return 'rang'":                          "rang",
		"try { await tools.demo.fail({}) } catch (e) { return [e.name, e.code, e.status] }": []any{"ToolError", "upstream", 502.0},
		"return new Date(0).toString().includes('GMT+0000')":                                true,
	} {
		if v := execute(t, code, 30*time.Second); v.outcome != "harmless" || !reflect.DeepEqual(v.value, want) {
			t.Errorf("%s: %s %v %+v, want %v", code, v.outcome, v.value, v.failure, want)
		}
	}
}

// A call is held for the script's next rest. One that does not rest makes it all the
// same, and so does one that ends.
func TestCallsOfAScriptThatDoesNotRestAreSent(t *testing.T) {
	for _, code := range []string{"tools.demo.danger({}); for (;;);", "tools.demo.danger({}); return 1"} {
		p, err := worker.Start(worker.Options{Executable: programs.kimbap})
		if err != nil {
			t.Fatal(err)
		}
		p.Limit(30 * time.Second)
		called := false
		err = p.Send(&frame.ToWorker{Check: &frame.Check{Source: code}})
		for !called && err == nil {
			var m *frame.ToHost
			if m, err = p.Recv(); err == nil && m.Checked != nil {
				err = p.Send(&frame.ToWorker{Run: &frame.Run{Now: 1, Seed: 1, Limits: limits}})
			}
			called = err == nil && m.Call != nil && m.Call.Path == "demo.danger"
		}
		if !called {
			t.Errorf("%s: no call came: %v", code, err)
		}
		p.Kill()
	}
}
