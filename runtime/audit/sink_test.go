//go:build unix

package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/audittest"
	"github.com/kimbap-run/kimbap/runtime/audit/history"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/sink/file"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

// memory is a sink that can be told to fail or to hang.
type memory struct {
	required bool
	gate     chan struct{} // nil: never hangs

	mu   sync.Mutex
	fail error
	got  [][]byte
}

func (m *memory) Name() string   { return "memory" }
func (m *memory) Required() bool { return m.required }
func (m *memory) Close() error   { return nil }

func (m *memory) Write(_ context.Context, _ string, lines [][]byte) error {
	if m.gate != nil {
		<-m.gate
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	for _, line := range lines {
		m.got = append(m.got, bytes.Clone(line))
	}
	return nil
}

func (m *memory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *memory) lines() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return string(bytes.Join(m.got, nil))
}

func TestRequiredSinkHasWrittenBeforeIntentReturns(t *testing.T) {
	dir := t.TempDir()
	clock, m := runtimetest.NewClock(), &memory{required: true}
	o := audittest.Options(dir)
	o.Sinks, o.After = []outlet.Sink{m}, clock.After
	l := audittest.Open(t, o)
	if err := l.Intent(t.Context(), audittest.Record("req_1")); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.lines(), "req_1") {
		t.Fatal("Intent returned before the required sink had the record")
	}
	m.set(errors.New("gone"))
	r := audittest.Record("req_2")
	if err := l.Intent(t.Context(), r); runtime.CodeOf(err) != runtime.CodeAuditUnavailable {
		t.Fatalf("Intent without the sink: %v", err)
	}
	if r.Sequence != 2 {
		t.Errorf("the ledger has the record, and its sequence is %d", r.Sequence)
	}
	r.Err = &runtime.Error{Code: runtime.CodeAuditUnavailable}
	l.Outcome(r)
	m.set(nil)
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("not recovered: %+v", l.Health())
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
	if want := strings.Join(audittest.Lines(t, dir), "\n") + "\n"; m.lines() != want {
		t.Errorf("the sink has\n%swant\n%s", m.lines(), want)
	}
}

func TestBestEffortSinkDelaysNobodyAndCountsDrops(t *testing.T) {
	m := &memory{gate: make(chan struct{})}
	o := audittest.Options(t.TempDir())
	o.Sinks, o.Queue = []outlet.Sink{m}, 100
	l := audittest.Open(t, o)
	for range 300 {
		if err := l.Intent(t.Context(), audittest.Record("req")); err != nil {
			t.Fatal(err)
		}
	}
	h := l.Health().Sinks[0]
	if h.Lost == 0 || h.Queue == 0 {
		t.Errorf("health: %+v", h)
	}
	close(m.gate)
	audittest.Shut(t, l)
	if got := strings.Count(m.lines(), "\n") + int(h.Lost); got != 300 {
		t.Errorf("sent and dropped: %d", got)
	}
}

func TestFileSinkFollowsLogrotate(t *testing.T) { // AU-009
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "audit.jsonl")
	shipping, err := file.New(file.Options{Path: out, Required: true, Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	o := audittest.Options(dir)
	o.Sinks = []outlet.Sink{shipping}
	l := audittest.Open(t, o)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if err := l.Intent(context.Background(), audittest.Record("req")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i, name := range []string{".1", ".2", ".3"} {
		for range i + 1 {
			_ = l.Event(t.Context(), record.Event{Kind: "rotate"})
		}
		if err := os.Rename(out, out+name); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	_ = l.Event(t.Context(), record.Event{Kind: "rotate"})
	audittest.Shut(t, l)
	var shipped []string
	for _, name := range []string{".1", ".2", ".3", ""} {
		data, err := os.ReadFile(out + name)
		if err != nil {
			t.Fatal(err)
		}
		shipped = append(shipped, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
	}
	if !slices.Equal(shipped, audittest.Lines(t, dir)) {
		t.Errorf("%d lines were shipped, the ledger has %d", len(shipped), len(audittest.Lines(t, dir)))
	}
}

func TestFailedWriteIsNotRetriedBlindly(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.After = clock.After
	l := audittest.Open(t, o)
	first := audittest.Record("req_1")
	if err := l.Intent(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	l.Fail()
	// A group that reached the file and whose fsync failed: nobody was told.
	path := filepath.Join(dir, "proxy", "00000001.jsonl")
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Outcome(first) // AU-002: the failing write is an outcome's
	if err := audittest.Step(clock, func() bool { return l.Ready() != nil }); err != nil {
		t.Fatal("a failed outcome write does not stop new requests")
	}
	_, werr := f.WriteString("half a group\n{")
	if err := errors.Join(werr, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := audittest.Step(clock, func() bool { return l.Ready() == nil }); err != nil {
		t.Fatalf("not recovered: %+v", l.Health())
	}
	audittest.Shut(t, l)
	audittest.Verified(t, dir)
	if got := audittest.Kinds(audittest.Entries(t, dir, history.Query{})); got != "intent outcome event" {
		t.Errorf("the ledger holds %q", got)
	}
}

func TestKeptOutcomesAreBounded(t *testing.T) {
	dir := t.TempDir()
	clock := runtimetest.NewClock()
	o := audittest.Options(dir)
	o.After, o.Kept = clock.After, 3
	l := audittest.Open(t, o)
	l.Fail()
	if l.Intent(t.Context(), audittest.Record("req")) == nil {
		t.Fatal("wrote to a closed file")
	}
	path := filepath.Join(dir, "proxy", "00000001.jsonl")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil { // nothing to recover to
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Dir(path), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		l.Outcome(audittest.Record("req"))
	}
	if err := audittest.Step(clock, func() bool { h := l.Health(); return h.Kept == 3 && h.Lost == 2 }); err != nil {
		t.Errorf("health: %+v", l.Health())
	}
	if err := l.Close(context.Background()); err == nil {
		t.Error("Close says nothing of what it could not write")
	}
}

// A best-effort sink that fails gets its lines later, in order; what it refuses
// for good, or what did not fit, is counted and recorded.
func TestBestEffortSinkIsTriedAgainAndItsLossRecorded(t *testing.T) {
	dir := t.TempDir()
	clock, m := runtimetest.NewClock(), &memory{fail: errors.New("gone")}
	o := audittest.Options(dir)
	o.Sinks, o.After, o.Clock = []outlet.Sink{m}, clock.After, clock.Now
	l := audittest.Open(t, o)
	audittest.Intents(t, l, 0, 3)
	if err := audittest.Step(clock, func() bool { return strings.Contains(l.Health().Sinks[0].LastError, "gone") }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	if h := l.Health().Sinks[0]; h.Queue != 3 || h.Lost != 0 {
		t.Errorf("%+v", h)
	}
	m.set(nil)
	if err := audittest.Step(clock, func() bool { return strings.Count(m.lines(), "\n") == 3 }); err != nil {
		t.Fatalf("not sent again: %q", m.lines())
	}
	m.set(&outlet.Refused{Lines: 1, Err: errors.New("too odd")})
	audittest.Intents(t, l, 3, 4)
	if err := audittest.Step(clock, func() bool { return l.Health().Sinks[0].Lost == 1 }); err != nil {
		t.Fatalf("%+v", l.Health())
	}
	m.set(nil)
	recorded := func() (events []record.Entry) {
		for _, e := range audittest.Entries(t, dir, history.Query{Kind: "event"}) {
			if e.Action == "audit.sink_lost" {
				events = append(events, e)
			}
		}
		return events
	}
	if err := audittest.Step(clock, func() bool { return len(recorded()) == 1 }); err != nil {
		t.Fatal("the loss is not recorded")
	}
	if line := string(recorded()[0].Line); !strings.Contains(line, `"sink":"memory"`) || !strings.Contains(line, `"lines":"1"`) || !strings.Contains(line, "too odd") {
		t.Errorf("recorded %s", line)
	}
	if err := audittest.Step(clock, func() bool { return strings.Contains(m.lines(), "audit.sink_lost") }); err != nil {
		t.Fatal("the record of the loss was not sent")
	}
	m.set(errors.New("gone again"))
	audittest.Intents(t, l, 4, 6)
	audittest.Shut(t, l)
	if all := recorded(); len(all) != 2 || !strings.Contains(string(all[1].Line), `"lines":"2","sink"`) {
		t.Errorf("what was lost at the end is recorded as %s", all[len(all)-1].Line)
	}
	audittest.Verified(t, dir)
}

// A sink that hangs holds up the end for as long as it may linger.
func TestASinkThatHangsDoesNotStopTheEnd(t *testing.T) {
	m := &hanging{}
	o := audittest.Options(t.TempDir())
	o.Sinks, o.Linger = []outlet.Sink{m}, 50*time.Millisecond
	l := audittest.Open(t, o)
	audittest.Intents(t, l, 0, 1)
	began := time.Now()
	audittest.Shut(t, l)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// hanging is a sink that never answers.
type hanging struct{}

func (*hanging) Name() string   { return "hanging" }
func (*hanging) Required() bool { return false }
func (*hanging) Close() error   { return nil }

func (*hanging) Write(ctx context.Context, _ string, _ [][]byte) error {
	<-ctx.Done()
	return ctx.Err()
}
