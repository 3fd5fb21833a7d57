package worker_test

import (
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

var limits = frame.Limits{Heap: 96 << 20, Stack: 2048, Calls: 500, Argument: 1 << 20, Result: 1 << 20, Logs: 256 << 10, InFlight: 16}

// start is a worker that is killed with the test.
func start(t *testing.T, s worker.Settings) *worker.Process {
	t.Helper()
	p, err := worker.Start(worker.Options{Executable: programs.puppet, Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill() })
	return p
}

// end kills a worker, if it lives, and says how it ended.
func end(p *worker.Process) worker.Ending { p.Kill(); return p.Wait() }

// run has a worker do what the source names and gives what it says until its end.
func run(t *testing.T, p *worker.Process, source string) (said []*frame.ToHost, end error) {
	t.Helper()
	if err := p.Send(&frame.ToWorker{Check: &frame.Check{Source: source}}); err != nil {
		return nil, err
	}
	for {
		m, err := p.Recv()
		if err != nil {
			return said, err
		}
		said = append(said, m)
		switch {
		case m.Checked != nil && m.Checked.Refusals == nil:
			if err := p.Send(&frame.ToWorker{Run: &frame.Run{Limits: limits}}); err != nil {
				return said, err
			}
		case m.Idle != nil:
			if err := p.Send(&frame.ToWorker{Reply: &frame.Reply{Seq: 1, Value: `"answer"`}}); err != nil {
				return said, err
			}
		case m.Done != nil, m.Checked != nil:
			return said, nil
		}
	}
}

func TestAScriptIsOneConversation(t *testing.T) {
	p := start(t, worker.Settings{})
	said, err := run(t, p, `call {"a":1}`)
	if err != nil || len(said) != 3 || said[1].Call.Args != `{"a":1}` || said[1].Idle == nil || said[2].Done.Value != `"answer"` {
		t.Errorf("the worker said %+v, %v", said, err)
	}
	if e := end(p); e.Kind != "" || e.PeakRSS <= 0 {
		t.Errorf("it ended as %+v, want well, with its memory", e)
	}
	if err := p.Send(&frame.ToWorker{Check: &frame.Check{}}); err == nil {
		t.Error("a second script was taken")
	}
}

func TestARefusedScriptEndsWell(t *testing.T) {
	p := start(t, worker.Settings{})
	said, err := run(t, p, "refused")
	if e := end(p); err != nil || len(said[0].Checked.Refusals) != 1 || e.Kind != "" {
		t.Errorf("got %+v, %v, %+v", said, err, e)
	}
}

// However a worker ends, the script has a kind for it.
func TestEveryEndHasAKind(t *testing.T) {
	for _, c := range []struct {
		source    string
		kind      frame.Kind
		violation bool
	}{
		{"grow", frame.KindMemory, false},
		{"huge", frame.KindMemory, false},
		{"nest", frame.KindStack, false},
		{"panic", frame.KindInterrupted, false},
		{"exit", frame.KindInterrupted, false},
		{"words", frame.KindInterrupted, false},
		{"raw cut", frame.KindInterrupted, false},
		{"raw long", frame.KindInterrupted, true},
		{"raw text", frame.KindInterrupted, true},
		{"flood", frame.KindInterrupted, true},
		{"odd ready", frame.KindInterrupted, true},
		{"odd checked", frame.KindInterrupted, true},
		{"odd number", frame.KindInterrupted, true},
		{"odd twice", frame.KindInterrupted, true},
		{"odd kind", frame.KindInterrupted, true},
		{"odd args", frame.KindInterrupted, true},
		{"odd value", frame.KindInterrupted, true},
		{"odd idle", frame.KindInterrupted, true},
		{"odd unawaits", frame.KindInterrupted, true},
	} {
		t.Run(c.source, func(t *testing.T) {
			p := start(t, worker.Settings{})
			p.Limit(time.Minute) // of another kind
			said, err := run(t, p, c.source)
			e := end(p)
			if !errors.Is(err, worker.ErrEnded) || e.Kind != c.kind || e.Violation != c.violation || p.Ended().Kind != c.kind || e.Message == "" {
				t.Errorf("said %d messages, %v, and ended as %+v, want %s", len(said), err, e, c.kind)
			}
			if e.PeakRSS > 300<<20 || len(e.Detail) > 8<<10 {
				t.Errorf("it took %d bytes of memory and said %d", e.PeakRSS, len(e.Detail))
			}
		})
	}
}

func TestGarbageIsNoMemory(t *testing.T) {
	p := start(t, worker.Settings{})
	if said, err := run(t, p, "garbage"); err != nil {
		t.Errorf("4 GB of garbage, one MB at a time: %+v, %v, %+v", said, err, end(p))
	}
}

// With one processor a script that keeps it busy leaves none to the collector, and what
// is garbage beside a few megabytes of live objects ended scripts as if it were memory.
func TestTheCollectorHasAProcessorBesideTheScript(t *testing.T) {
	p := start(t, worker.Settings{})
	said, err := run(t, p, "processors")
	if want := fmt.Sprint(min(2, goruntime.NumCPU())); err != nil || said[len(said)-1].Done.Value != want {
		t.Errorf("%v, %v, want %s", said, err, want)
	}
}

func TestTimeEndsAScript(t *testing.T) {
	for _, source := range []string{"spin", "wait", "flood"} {
		p := start(t, worker.Settings{})
		p.Limit(300 * time.Millisecond)
		begin := time.Now()
		if source == "flood" { // which nobody reads
			_ = p.Send(&frame.ToWorker{Check: &frame.Check{Source: source}})
			_, _ = p.Recv()
			_ = p.Send(&frame.ToWorker{Run: &frame.Run{Limits: limits}})
			p.Wait()
		} else {
			_, _ = run(t, p, source)
		}
		if e := end(p); e.Kind != frame.KindTimeout || !strings.Contains(e.Message, "300ms") || time.Since(begin) > 10*time.Second {
			t.Errorf("%s: ended as %+v after %v", source, e, time.Since(begin))
		}
	}
}

func TestProcessorTimeEndsAScript(t *testing.T) {
	p := start(t, worker.Settings{CPU: time.Second})
	_, err := run(t, p, "spin")
	if e := end(p); !errors.Is(err, worker.ErrEnded) || e.Kind != frame.KindTimeout || e.CPU > 3*time.Second {
		t.Errorf("got %v, %+v", err, e)
	}
}

func TestPausedTimeDoesNotCount(t *testing.T) {
	p := start(t, worker.Settings{})
	p.Pause() // before there is a limit: nothing
	p.Limit(500 * time.Millisecond)
	p.Pause()
	p.Pause()
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = run(t, p, "wait") }()
	select {
	case <-ended:
		t.Error("it ended while its time stood still")
	case <-time.After(700 * time.Millisecond):
	}
	p.Resume()
	<-ended
	if e := end(p); e.Kind != frame.KindTimeout {
		t.Errorf("ended as %+v", e)
	}
}

func TestTheFirstReasonCounts(t *testing.T) {
	p := start(t, worker.Settings{})
	ended := make(chan struct{})
	go func() { defer close(ended); _, _ = run(t, p, "spin") }()
	p.Stop(frame.KindCalls, "too many")
	p.Stop(frame.KindTimeout, "too long")
	<-ended
	if e := p.Wait(); e.Kind != frame.KindCalls || e.Message != "too many" || e.Detail != "" {
		t.Errorf("ended as %+v", e)
	}
}

func TestAWorkerIsReapedAndGivesBackWhatItTook(t *testing.T) {
	p := start(t, worker.Settings{})
	if err := p.Ready(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill()
	select {
	case <-p.Gone():
	default:
		t.Error("closed, and not gone")
	}
	if err := p.Send(&frame.ToWorker{Check: &frame.Check{}}); !errors.Is(err, worker.ErrEnded) {
		t.Errorf("sending to a closed worker: %v", err)
	}
	if _, err := p.Recv(); !errors.Is(err, worker.ErrEnded) {
		t.Errorf("receiving from a closed worker: %v", err)
	}
}

func TestWhatIsNoWorkerDoesNotStart(t *testing.T) {
	if _, err := worker.Start(worker.Options{}); err == nil {
		t.Error("started without an executable")
	}
	if _, err := worker.Start(worker.Options{Executable: "/no/such/file"}); err == nil {
		t.Error("started what is not there")
	}
	p, err := worker.Start(worker.Options{Executable: programs.probe})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if err := p.Ready(); !errors.Is(err, worker.ErrStart) || p.Level() != "" {
		t.Errorf("a program that is no worker was ready: %v", err)
	}
	if _, err := p.Recv(); !errors.Is(err, worker.ErrStart) {
		t.Errorf("receiving from it: %v", err)
	}
}

func TestAWorkerHasNoEnvironment(t *testing.T) {
	t.Setenv("KIMBAP_SECRET", "canary")
	said, err := run(t, start(t, worker.Settings{}), "environment")
	if err != nil || said[len(said)-1].Done.Value != "[]" {
		t.Errorf("it sees %+v, %v", said[len(said)-1], err)
	}
	if os.Getenv("KIMBAP_SECRET") == "" {
		t.Error("there was nothing to see")
	}
}

func TestTheHostKeepsTheOrder(t *testing.T) {
	p := start(t, worker.Settings{})
	for name, m := range map[string]*frame.ToWorker{
		"run before check": {Run: &frame.Run{}},
		"reply to no call": {Reply: &frame.Reply{Seq: 1}},
		"empty":            {},
	} {
		if err := p.Send(m); err == nil || errors.Is(err, worker.ErrEnded) {
			t.Errorf("%s: %v, want an error", name, err)
		}
	}
}

func TestTheLevelIsWhatAWorkerSays(t *testing.T) {
	want := frame.LevelProcess
	if goruntime.GOOS == "linux" && (goruntime.GOARCH == "amd64" || goruntime.GOARCH == "arm64") {
		want = frame.LevelSeccomp
	}
	if got, err := worker.Level(worker.Options{Executable: programs.kimbap}); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := worker.Level(worker.Options{Executable: programs.probe}); !errors.Is(err, worker.ErrStart) || got != "" {
		t.Errorf("of no worker: %q, %v", got, err)
	}
}
