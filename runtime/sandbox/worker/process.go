package worker

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Sizes of a worker's pipes, in bytes.
const (
	readAhead    = 64 << 10
	maxLastWords = 8 << 10
)

// Times of a worker.
const (
	waitDelay   = time.Second      // for its last words, after its end
	readyWithin = 10 * time.Second // from its start until somebody has read that it is ready
)

// Errors of a conversation's end.
var (
	// ErrEnded: the worker is gone or about to go; Wait says how.
	ErrEnded = errors.New("the script's worker has ended")
	// ErrStart: the worker ended before it was ready, and before it was told
	// anything of a script. It is a fault of this installation or system, not of a
	// script.
	ErrStart = errors.New("the script's worker does not start")
)

// Options say what to start.
type Options struct {
	Executable string // a kimbap: on Linux one without cgo. Required
	Settings   Settings
}

// Process is a worker, for one conversation. It must be killed at the end. All methods may be
// called at once from any goroutine, but for Recv, which is for one.
type Process struct {
	settings Settings
	cmd      *exec.Cmd
	in       *os.File // to the worker
	out      *os.File // from it
	frames   *bufio.Reader
	words    lastWords
	guard    guard
	clock    clock

	sending  sync.Mutex
	offered  bytes.Buffer // guarded by sending
	readying sync.Once
	overdue  *time.Timer // ends a worker that does not become ready
	level    frame.Level
	notReady error
	closing  sync.Once

	mu     sync.Mutex
	reason *Ending // why it was killed here; nil: it was not

	gone  chan struct{} // closed when the process is reaped; valid then:
	exit  exit
	asked *Ending // reason, as it was then
}

// Start starts a worker and returns at once: it becomes ready while its parent does
// other things, and may be sent to meanwhile. One that is not asked for its first
// message within ten seconds is ended. An error is the system's.
func Start(o Options) (*Process, error) {
	if o.Executable == "" {
		return nil, errors.New("no executable for script workers")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		_, _ = theirIn.Close(), in.Close()
		return nil, err
	}
	p := &Process{
		settings: o.Settings.withDefaults(), in: in, out: out,
		frames: bufio.NewReaderSize(out, readAhead), gone: make(chan struct{}),
	}
	p.cmd = &exec.Cmd{
		Path: o.Executable, Args: append([]string{"kimbap"}, p.settings.arguments()...),
		Env: []string{}, Dir: root, SysProcAttr: attributes(),
		Stdin: theirIn, Stdout: theirOut, Stderr: &p.words, WaitDelay: waitDelay,
	}
	started := make(chan error)
	go p.keep(started)
	err = <-started
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		_, _ = in.Close(), out.Close()
		return nil, fmt.Errorf("start a script worker: %w", err)
	}
	p.overdue = time.AfterFunc(readyWithin, func() {
		p.end(Ending{Kind: frame.KindInterrupted, Message: "the script's process did not become ready"})
	})
	return p, nil
}

// keep starts the process and waits for it, both on one thread: on Linux the
// process dies with the thread that started it, and so that must not end before.
func (p *Process) keep(started chan<- error) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	_ = p.cmd.Wait() // ProcessState has it all
	p.clock.stop()
	p.exit = exitOf(p.cmd.ProcessState)
	p.mu.Lock()
	p.asked = p.reason
	p.mu.Unlock()
	close(p.gone)
}

// judge says how the process ended: as it was asked to, or by itself. What it said
// last may be read after it has gone.
func (p *Process) judge() Ending {
	x, reason := p.exit, p.asked
	e := judge(x, p.words.String(), p.settings)
	switch {
	case x.forbidden:
	case reason != nil && reason.Violation:
		e = *reason
	case p.guard.over():
		e = Ending{}
	case reason != nil && !x.itself():
		e = *reason
	}
	e.CPU, e.PeakRSS = x.cpu, x.peak
	return e
}

// Ready waits until the worker has given up what it must, and can take a script. A
// worker that cannot is [ErrStart].
func (p *Process) Ready() error {
	p.readying.Do(func() {
		m, err := frame.Read[frame.ToHost](p.frames)
		p.overdue.Stop()
		if err == nil && m.Ready != nil && m.Ready.Error == "" {
			p.level = m.Ready.Level
			return
		}
		p.end(Ending{Kind: frame.KindInterrupted, Message: "the script's process did not start"})
		why := p.Wait().Detail
		if err == nil && m.Ready != nil {
			why = m.Ready.Error
		}
		first, _, _ := strings.Cut(cmp.Or(why, p.words.String(), fmt.Sprint(err)), "\n")
		p.notReady = fmt.Errorf("%w: %s", ErrStart, first)
	})
	return p.notReady
}

// Level says what holds the worker; it waits as Ready does and is empty after an error.
func (p *Process) Level() frame.Level {
	_ = p.Ready()
	return p.level
}

// Send says something to the worker. It blocks while the worker does not listen, at
// the longest until its end. An error beside [ErrEnded] is a mistake of the caller.
func (p *Process) Send(m *frame.ToWorker) error {
	p.sending.Lock()
	defer p.sending.Unlock()
	if err := p.guard.sent(m); err != nil {
		return err
	}
	err := frame.Write(p.in, m)
	if errors.Is(err, frame.ErrTooLong) || errors.Is(err, frame.ErrMalformed) {
		return err
	}
	if err != nil {
		return ErrEnded
	}
	return nil
}

// Offer says something to the worker if its pipe has room for it now; false says that
// nothing was said. It never waits, also for a worker that does not listen.
func (p *Process) Offer(m *frame.ToWorker) bool {
	if !p.sending.TryLock() {
		return false
	}
	defer p.sending.Unlock()
	p.offered.Reset()
	if frame.Append(&p.offered, m) != nil || p.offered.Len() > pipeBuf || p.guard.sent(m) != nil {
		return false
	}
	if !writeAtOnce(p.in, p.offered.Bytes()) {
		p.guard.unsent(m)
		return false
	}
	return true
}

// Recv waits for the worker's next message. [ErrEnded] says that there is none, and
// [ErrStart] that there never will be. What a worker must not say ends it.
func (p *Process) Recv() (*frame.ToHost, error) {
	if err := p.Ready(); err != nil {
		return nil, err
	}
	m, err := frame.Read[frame.ToHost](p.frames)
	switch {
	case errors.Is(err, frame.ErrTooLong), errors.Is(err, frame.ErrMalformed):
		p.violate(err)
		return nil, ErrEnded
	case err != nil:
		_ = p.cmd.Process.Kill() // without a reason: who closes its pipe is on its way out, and has its own
		<-p.gone
		return nil, ErrEnded
	}
	if err := p.guard.received(m); err != nil {
		p.violate(err)
		return nil, ErrEnded
	}
	return m, nil
}

// Limit gives the script this much running time from now, then the worker is killed.
func (p *Process) Limit(d time.Duration) {
	p.clock.limit(d, func() {
		p.end(Ending{Kind: frame.KindTimeout, Message: fmt.Sprintf("the script ran longer than %v", d)})
	})
}

// Pause stops the running time, Resume lets it go on; both do nothing the second
// time, and Resume nothing without a limit. The process itself is not stopped.
func (p *Process) Pause()  { p.clock.stop() }
func (p *Process) Resume() { p.clock.resume() }

// Stop ends the worker at once, and Wait will give this kind and message unless it
// had ended, or was ended, before. It does not wait.
func (p *Process) Stop(kind frame.Kind, message string) {
	p.end(Ending{Kind: kind, Message: message})
}

func (p *Process) violate(err error) {
	p.end(Ending{
		Kind: frame.KindInterrupted, Message: "the script's process broke the rules of its conversation, and was ended",
		Detail: err.Error(), Violation: true,
	})
}

// end kills the worker; the first reason is the one that counts.
func (p *Process) end(why Ending) {
	p.mu.Lock()
	if p.reason == nil {
		p.reason = &why
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // an error: it has ended
}

// Wait waits until the worker has ended and is reaped. It does not end it.
func (p *Process) Wait() Ending {
	<-p.gone
	return p.judge()
}

// Gone is closed when the worker has ended and is reaped.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Kill ends the worker if it has not ended, waits until it is reaped, and gives back
// everything. It can be called again.
func (p *Process) Kill() {
	p.Stop(frame.KindInterrupted, "the script was stopped")
	p.Wait()
	p.overdue.Stop()
	p.closing.Do(func() { _, _ = p.in.Close(), p.out.Close() })
}

// Ended waits as Wait does, and is the ending as the script's.
func (p *Process) Ended() frame.Failure { return p.Wait().Failure() }

// Pid is the worker's process id, for logs and tests.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// lastWords keeps the beginning of what a worker writes where nobody reads.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b[:min(len(b), maxLastWords-len(w.text))]...)
	return len(b), nil
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}
