package worker

import (
	"bufio"
	"bytes"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// maxReplies is how many replies may lie unread in the worker. The host sends one
// for each call and timer, and a script has not as many waiting: 10,000 timers and a
// few calls.
const maxReplies = 1 << 14

// maxHeld is how many bytes of calls wait for the script to rest before they are
// written, and maxKept how large a buffer is kept for the next ones.
const (
	maxHeld = 32 << 10
	maxKept = 256 << 10
)

// Engine is what makes something of a script's source. It lives in the worker.
type Engine interface {
	// Prepare does ahead what does not depend on the script, while the worker waits for
	// one. Asked says that it has come. Check and Run may be called meanwhile.
	Prepare(asked func() bool)
	// Check says whether a source may run. The program is nil when it may not.
	Check(source string) (Program, *frame.Checked)
}

// Program is a script that may run.
type Program interface {
	// Run runs it, once, and says how it went. It talks to the host only through what
	// it is given: say sends Call, Log and Idle, and each call gets its reply, at some
	// time or never, from replies.
	Run(run *frame.Run, say func(*frame.ToHost), replies <-chan frame.Reply) *frame.Done
}

// Main is a worker from its start to its end; the result is the exit status. Args
// are those after [Command]. In and out are pipes to the parent. It returns when the
// conversation is over, when nobody is at the other end, or when the script takes
// too much: the goroutines that are then still at work end with the process.
func Main(args []string, in io.Reader, out io.Writer, engine Engine) int {
	c := &child{
		engine: engine, out: out, replies: make(chan frame.Reply, maxReplies), asked: make(chan *frame.ToWorker, 2), ended: make(chan int, 3),
		heap: heap{awake: make(chan struct{}, 1)},
	}
	in = polled(in)
	settings, err := parseSettings(args)
	var level frame.Level
	if err == nil {
		level, err = Confine(settings)
	}
	if err != nil {
		c.say(&frame.ToHost{Ready: &frame.Ready{Error: err.Error()}})
		return exitUnconfine
	}
	c.say(&frame.ToHost{Ready: &frame.Ready{Level: level}})
	c.heap.limit(settings.Heap)
	c.heap.tick = c.nudge
	go c.listen(bufio.NewReader(in))
	go engine.Prepare(func() bool { return c.met.Load() })
	go func() { c.ended <- c.heap.watch() }()
	go func() { c.ended <- c.converse() }()
	return <-c.ended
}

// child is the worker's end of the conversation.
type child struct {
	engine   Engine
	speaking sync.Mutex
	out      io.Writer
	held     bytes.Buffer  // frames that are not written yet; guarded by speaking
	last     *frame.ToHost // a call that is no frame yet: see put; guarded by speaking
	replies  chan frame.Reply
	asked    chan *frame.ToWorker // Check, then Run
	ended    chan int             // room for all who write to it
	met      atomic.Bool          // something was asked
	heap     heap
}

// say sends one message, behind those that are held. When it cannot, nobody is left to
// tell.
func (c *child) say(m *frame.ToHost) {
	c.speaking.Lock()
	defer c.speaking.Unlock()
	err := c.put(m)
	if err == nil {
		err = c.write()
	}
	if err != nil {
		c.orphaned()
	}
}

// put adds one message to those that are held. A call waits for what follows it: with
// Idle it is one frame.
func (c *child) put(m *frame.ToHost) error {
	last := c.last
	c.last = nil
	if last != nil && m.Idle != nil {
		last.Idle = m.Idle
		return frame.Append(&c.held, last)
	}
	if last != nil {
		if err := frame.Append(&c.held, last); err != nil {
			return err
		}
	}
	if m.Call != nil {
		c.last = m
		return nil
	}
	return frame.Append(&c.held, m)
}

// hold keeps one message for the next one that is sent. What runs on without a rest has
// it sent at the next look of the watch of the heap.
func (c *child) hold(m *frame.ToHost) {
	c.speaking.Lock()
	defer c.speaking.Unlock()
	err := c.put(m)
	if err == nil && c.held.Len() > maxHeld {
		err = c.write()
	}
	if err != nil {
		c.orphaned()
	}
}

// nudge has what is held sent, and does not wait for it: the watch of the heap must not
// stand still where the host is slow to read. Whoever has the lock sends or comes back.
func (c *child) nudge() {
	if !c.speaking.TryLock() {
		return
	}
	held := c.holds()
	c.speaking.Unlock()
	if held {
		go c.flush()
	}
}

// flush sends what is held.
func (c *child) flush() {
	c.speaking.Lock()
	defer c.speaking.Unlock()
	if c.holds() && c.write() != nil {
		c.orphaned()
	}
}

func (c *child) holds() bool { return c.held.Len() > 0 || c.last != nil }

func (c *child) write() error {
	if c.last != nil {
		if err := frame.Append(&c.held, c.last); err != nil {
			return err
		}
		c.last = nil
	}
	_, err := c.out.Write(c.held.Bytes())
	c.held.Reset()
	if c.held.Cap() > maxKept {
		c.held = bytes.Buffer{}
	}
	return err
}

func (c *child) orphaned() {
	select {
	case c.ended <- exitOrphaned:
	default:
	}
}

// listen reads what the host says until the pipe ends, also while the script runs:
// where the kernel does not end the worker with its parent, this does.
func (c *child) listen(in io.Reader) {
	for {
		m, err := frame.Read[frame.ToWorker](in)
		if err != nil {
			c.ended <- exitOrphaned
			return
		}
		if m.Reply != nil {
			c.replies <- *m.Reply
		} else {
			c.met.Store(true)
			c.asked <- m
		}
		c.heap.wake()
	}
}

// rest lets the watch of the heap sleep until something comes, unless it has come:
// the watch is woken after a message is there to be taken.
func (c *child) rest() {
	c.heap.rest()
	if len(c.replies) > 0 || len(c.asked) > 0 {
		c.heap.wake()
	}
}

// ask waits for the next order.
func (c *child) ask() *frame.ToWorker {
	c.rest()
	return <-c.asked
}

// tell sends what the engine says. A call goes with what follows it at once, mostly that
// the script waits: one system call, and the host is woken once.
func (c *child) tell(m *frame.ToHost) {
	if m.Call != nil {
		c.hold(m)
		return
	}
	c.say(m)
	if m.Idle != nil {
		c.rest()
	}
}

// converse is the one script of this process.
func (c *child) converse() int {
	m := c.ask()
	if m.Check == nil {
		return exitMisspoken
	}
	program, checked := c.engine.Check(m.Check.Source)
	c.say(&frame.ToHost{Checked: checked})
	if program == nil {
		return exitWell
	}
	if m = c.ask(); m.Run == nil {
		return exitMisspoken
	}
	if m.Run.Limits.Heap > 0 {
		c.heap.limit(m.Run.Limits.Heap)
	}
	debug.SetMaxStack(runStack)
	c.say(&frame.ToHost{Done: program.Run(m.Run, c.tell, c.replies)})
	return exitWell
}
