package outlet_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(runtimetest.Settled{M: m}) }

// place is a sink that says of each write what the test has told it to.
type place struct {
	required bool
	says     chan error // one for each write; nil: all go well
	writing  chan int   // how many lines each write has; nil: nobody looks

	mu     sync.Mutex
	got    []string
	closed atomic.Bool
}

func (p *place) Name() string   { return "place" }
func (p *place) Required() bool { return p.required }
func (p *place) Close() error   { p.closed.Store(true); return nil }

func (p *place) Write(ctx context.Context, slot string, lines [][]byte) error {
	if p.writing != nil {
		p.writing <- len(lines)
	}
	if p.says != nil {
		select {
		case err := <-p.says:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, line := range lines {
		p.got = append(p.got, slot+":"+strings.TrimSpace(string(line)))
	}
	return nil
}

func (p *place) has() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.got, " ")
}

func lines(words string) (out [][]byte) {
	for _, word := range strings.Fields(words) {
		out = append(out, []byte(word+"\n"))
	}
	return out
}

// never is a pause that does not end.
func never(time.Duration) <-chan time.Time { return nil }

var errFull = errors.New("it is full")

// A required sink is written to before Give returns. What it did not take its owner gives it
// again, of whichever slot it is.
func TestARequiredSinkIsWaitedFor(t *testing.T) {
	p := &place{required: true, says: make(chan error, 9)}
	o := outlet.Open(p, 1, never, func() { t.Error("lines of a required sink were lost") })
	give := func(words string, err error) error {
		p.says <- err
		return o.Give("proxy", lines(words))
	}
	if err := give("a b", nil); err != nil || p.has() != "proxy:a proxy:b" {
		t.Errorf("%v: %s", err, p.has())
	}
	if err := give("c d", errFull); !errors.Is(err, errFull) || !strings.Contains(err.Error(), "place") {
		t.Errorf("a sink that failed: %v", err)
	}
	o.Lacks(2)
	if h := o.Health(); !h.Required || h.LastError != "it is full" || h.Queue != 2 {
		t.Errorf("%+v", h)
	}
	for _, want := range []error{errFull, nil} {
		p.says <- want
		if err := o.Give("run", lines("c d")); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	o.Lacks(0)
	if err := give("e", nil); err != nil || p.has() != "proxy:a proxy:b run:c run:d proxy:e" {
		t.Errorf("%v: %s", err, p.has())
	}
	if h := o.Health(); h.LastError != "" || h.Lost != 0 || h.Queue != 0 {
		t.Errorf("%+v", h)
	}
	if all := o.Lose(3); all != 3 || o.Health().Lost != 3 {
		t.Errorf("%d lost: %+v", all, o.Health())
	}
	if _, fresh, _ := o.Losses(); fresh != 0 {
		t.Errorf("%d lost lines are to be told of, which a record tells of", fresh)
	}
	if o.Close(time.Hour); !p.closed.Load() {
		t.Error("the sink was not closed")
	}
}

// Lines for a slow sink wait; those that find no room are counted, all of them, and none of
// those that wait is.
func TestAFullQueueCountsWhatIsLost(t *testing.T) {
	var told atomic.Int64
	p := &place{says: make(chan error), writing: make(chan int, 9)}
	o := outlet.Open(p, 4, never, func() { told.Add(1) })
	give := func(words string, lost, fresh uint64) {
		t.Helper()
		if err := o.Give("run", lines(words)); err != nil {
			t.Errorf("%s: %v", words, err)
		}
		if all, some, _ := o.Losses(); all != lost || some != fresh {
			t.Errorf("after %s: %d lost, %d of them nobody was told of; want %d and %d", words, all, some, lost, fresh)
		}
	}
	give("a", 0, 0)
	<-p.writing // it hangs with the first, which waits until it was taken
	give("b c", 0, 0)
	give("d e", 2, 2) // a group is taken whole, or not at all
	give("f", 2, 2)
	give("g", 3, 3)
	o.Told(2)
	give("h", 4, 2)
	if h := o.Health(); h.Queue != 4 || h.Lost != 4 || told.Load() != 3 {
		t.Errorf("%+v, told %d times", h, told.Load())
	}
	close(p.says) // from now on all goes well
	o.Close(time.Hour)
	if p.has() != "run:a run:b run:c run:f" {
		t.Errorf("it got %s", p.has())
	}
	if h := o.Health(); h.Queue != 0 || h.Lost != 4 {
		t.Errorf("at the end: %+v", h)
	}
}

// The bytes of the queue are bounded as its lines are.
func TestAQueueHasABoundOfBytes(t *testing.T) {
	var told atomic.Int64
	p := &place{}
	o := outlet.Open(p, 8, never, func() { told.Add(1) })
	defer o.Close(time.Hour)
	if err := o.Give("run", [][]byte{bytes.Repeat([]byte("a"), 16<<20+1)}); err != nil {
		t.Fatal(err)
	}
	if lost, _, _ := o.Losses(); lost != 1 || told.Load() != 1 {
		t.Errorf("%d lost, told %d times", lost, told.Load())
	}
}

// A best-effort sink is tried again after a pause: a longer one each time, or the one that it
// asks for. What it refuses for good is counted and not sent again.
func TestASinkIsTriedAgainAsItSays(t *testing.T) {
	p := &place{says: make(chan error), writing: make(chan int)}
	pauses, over := make(chan time.Duration), make(chan time.Time)
	o := outlet.Open(p, 8, func(d time.Duration) <-chan time.Time { pauses <- d; return over }, func() {})
	if err := o.Give("run", lines("a b c")); err != nil {
		t.Fatal(err)
	}
	write := func(says error) {
		t.Helper()
		if n := <-p.writing; n != 3 {
			t.Fatalf("%d lines are sent, want all three", n)
		}
		p.says <- says
	}
	for _, c := range []struct {
		says error
		want time.Duration
	}{
		{errFull, 200 * time.Millisecond},
		{errFull, 400 * time.Millisecond},
		{&outlet.Later{After: 7 * time.Second, Err: errFull}, 7 * time.Second},
		{&outlet.Later{After: time.Hour, Err: errFull}, 30 * time.Second},
	} {
		write(c.says)
		if got := <-pauses; got != c.want {
			t.Errorf("after %v: a pause of %v, want %v", c.says, got, c.want)
		}
		over <- time.Time{}
	}
	write(&outlet.Refused{Lines: 2, Err: errFull})
	if err := o.Give("run", lines("d")); err != nil {
		t.Fatal(err)
	}
	if n := <-p.writing; n != 1 {
		t.Errorf("%d lines are sent, want the new one", n)
	}
	p.says <- nil
	o.Close(time.Hour)
	if lost, _, _ := o.Losses(); lost != 2 || p.has() != "run:d" {
		t.Errorf("%d lost, it got %s", lost, p.has())
	}
}

// The end is one more try. What a sink did not take then is lost, and counted.
func TestWhatIsLeftAtTheEndIsLost(t *testing.T) {
	p := &place{says: make(chan error), writing: make(chan int)}
	waits := make(chan struct{}, 1)
	o := outlet.Open(p, 8, func(time.Duration) <-chan time.Time { waits <- struct{}{}; return nil }, func() {})
	if err := o.Give("run", lines("a b")); err != nil {
		t.Fatal(err)
	}
	<-p.writing
	p.says <- errFull
	<-waits
	o.Close(time.Hour)
	if lost, _, cause := o.Losses(); lost != 2 || !errors.Is(cause, errFull) || !p.closed.Load() {
		t.Errorf("%d lost, because of %v; closed: %v", lost, cause, p.closed.Load())
	}
	if err := o.Give("run", lines("c")); err != nil { // as the ledger does that failed until its end
		t.Fatal(err)
	}
	if lost, _, _ := o.Losses(); lost != 3 {
		t.Errorf("%d lost, with what came after the end", lost)
	}

	hangs := &place{says: make(chan error), writing: make(chan int, 1)} // until its write is given up
	told := make(chan struct{}, 1)
	o = outlet.Open(hangs, 8, never, func() { told <- struct{}{} })
	if err := o.Give("run", lines("a b c")); err != nil {
		t.Fatal(err)
	}
	<-hangs.writing
	o.Close(time.Millisecond)
	<-told
	if lost, _, _ := o.Losses(); lost != 3 {
		t.Errorf("of a sink that hangs %d are lost", lost)
	}
}

// panicking is a sink of which nobody thought that it could.
type panicking struct{ place }

func (p *panicking) Write(context.Context, string, [][]byte) error { panic("over a line") }

// What panics in a sink is a failure of it, on its own goroutine too: where it is required its
// line is not taken, and else it is counted as lost.
func TestASinkThatPanicsHasFailed(t *testing.T) {
	for _, required := range []bool{true, false} {
		o := outlet.Open(&panicking{place{required: required}}, 10, time.After, func() {})
		err := o.Give("run", [][]byte{[]byte("a\n")})
		if required != (err != nil) {
			t.Errorf("required %v: %v", required, err)
		}
		o.Close(time.Second)
		if lost, _, _ := o.Losses(); !required && lost != 1 {
			t.Errorf("%d lines are lost", lost)
		}
	}
}

// What is wrong with a sink is said without its name, which who says it has said.
func TestWhatIsWrongWithASinkIsSaid(t *testing.T) {
	for want, h := range map[string]outlet.Health{
		"":                                     {Name: "place", Queue: 3},
		"lacks 2 lines, it is full":            {Name: "place", Required: true, Queue: 2, LastError: "it is full"},
		"lacks 1 line":                         {Name: "place", Required: true, Queue: 1},
		"4 lines lost":                         {Name: "place", Required: true, Lost: 4},
		"3 lines still to be sent, it is full": {Name: "place", Queue: 3, LastError: "it is full"},
	} {
		if said := h.Said(); said != want {
			t.Errorf("%+v: %q, want %q", h, said, want)
		}
	}
}
