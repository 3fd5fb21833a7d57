package worker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Bounds of what a worker may say where frame.Limits has none.
const (
	maxRefusals = 1000
	maxTools    = 10_000  // a source has room for no more
	maxOther    = 100_000 // calls that are not of tools: timers, searches
	logsBesides = 64 << 10
	maxLogs     = 100_000
)

// guard keeps one conversation in order. What it says of the host's frames is a
// mistake of ours; what it says of the worker's means that the worker is no longer
// the program that we started.
type guard struct {
	mu      sync.Mutex
	asked   bool // Check was sent
	checked bool // and answered: nothing stands against running
	running bool // Run was sent
	done    bool
	limits  frame.Limits
	calls   int // of tools
	others  int
	seen    map[int]bool // calls by number: whether they wait for a reply
	replies int
	idles   int
	logs    int // bytes
	logged  int // messages
}

// sent checks a message of the host before it goes.
func (g *guard) sent(m *frame.ToWorker) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m.Check != nil && !g.asked:
		g.asked = true
	case m.Run != nil && g.checked && !g.running:
		g.running, g.limits, g.seen = true, m.Run.Limits, map[int]bool{}
	case m.Reply != nil && g.seen[m.Reply.Seq]:
		g.seen[m.Reply.Seq] = false
		g.replies++
	case m.Reply != nil:
		return fmt.Errorf("no call %d waits", m.Reply.Seq)
	default:
		return errors.New("a message out of turn")
	}
	return nil
}

// unsent takes back a message that was checked and could not go.
func (g *guard) unsent(m *frame.ToWorker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case m.Check != nil:
		g.asked = false
	case m.Run != nil:
		g.running = false
	case m.Reply != nil:
		g.seen[m.Reply.Seq] = true
		g.replies--
	}
}

// received checks a message of the worker.
func (g *guard) received(m *frame.ToHost) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.Checked != nil {
		return g.answered(m.Checked)
	}
	if m.Ready != nil || !g.running || g.done {
		return errors.New("a message out of turn")
	}
	switch {
	case m.Call != nil:
		err := g.called(m.Call)
		if err == nil && m.Idle != nil {
			err = g.idle(m.Idle)
		}
		return err
	case m.Log != nil:
		return g.said(m.Log)
	case m.Idle != nil:
		return g.idle(m.Idle)
	}
	return g.ended(m.Done)
}

func (g *guard) answered(c *frame.Checked) error {
	if !g.asked || g.checked || g.done {
		return errors.New("an answer that nobody asked for")
	}
	if len(c.Refusals) > maxRefusals || len(c.Tools) > maxTools {
		return errors.New("an answer that is too long")
	}
	g.checked = len(c.Refusals) == 0
	g.done = !g.checked
	return nil
}

func (g *guard) called(c *frame.Call) error {
	switch c.Kind {
	case frame.CallTool:
		g.calls++
	case frame.CallSearch, frame.CallDescribe, frame.CallTimer:
		g.others++
	default:
		return fmt.Errorf("a call of kind %q", c.Kind)
	}
	if _, again := g.seen[c.Seq]; again || c.Seq < 1 || c.Seq > g.most() {
		return fmt.Errorf("a call with the number %d", c.Seq)
	}
	if g.calls > g.limits.Calls || g.others > maxOther {
		return errors.New("more calls than allowed")
	}
	if len(c.Args) > g.limits.Argument {
		return errors.New("longer arguments than allowed")
	}
	g.seen[c.Seq] = true
	return nil
}

// most is how many calls there can be. They need not come in the order of their
// numbers: a worker holds back those of tools while too many are under way.
func (g *guard) most() int { return g.limits.Calls + maxOther }

func (g *guard) said(l *frame.Log) error {
	g.logs += len(l.Message)
	g.logged++
	if g.logs > g.limits.Logs+logsBesides || g.logged > maxLogs || len(l.Level) > 16 {
		return errors.New("more log than allowed")
	}
	return nil
}

func (g *guard) idle(i *frame.Idle) error {
	g.idles++
	if g.idles > g.replies+1 || len(i.Waiting) > g.most() {
		return errors.New("it waits more often than there is reason to")
	}
	return nil
}

func (g *guard) ended(d *frame.Done) error {
	if len(d.Value) > g.limits.Result || len(d.Unawaited) > g.most() {
		return errors.New("a longer result than allowed")
	}
	g.done = true
	return nil
}

// over reports whether the conversation has come to its end.
func (g *guard) over() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.done
}
