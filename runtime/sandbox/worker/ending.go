package worker

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// What a worker's exit status says, by our own choice. Two is the Go runtime's when
// it gives up.
const (
	exitWell      = 0
	exitGoRuntime = 2
	exitOrphaned  = 60 // nobody is at the other end of the pipe
	exitMemory    = 61
	exitMisspoken = 62 // the parent said what makes no sense
	exitUnconfine = 63 // not everything could be given up
)

// Ending is how a worker ended, of which the script knew nothing.
type Ending struct {
	// Kind is empty when the conversation had come to its end: then Done, or the
	// refusals in Checked, say how the script went.
	Kind    frame.Kind
	Message string // for the caller
	// Detail is for the log: the Go runtime's last words, at most 8 KiB. It may hold
	// text of the script, and nothing of ours, of which a worker knows none.
	Detail string
	// Violation: the worker did what none of ours does: a forbidden system call, or
	// a frame out of turn. Somebody tried to break out.
	Violation bool
	CPU       time.Duration // of all threads
	// PeakRSS is the most memory that was resident, in bytes; 0: not known. On Linux
	// it is never below what kimbap itself had at the start: the kernel counts the
	// moment between fork and exec.
	PeakRSS int64
}

// Failure is the ending as the script's; after a conversation that came to its end
// it says no more than that.
func (e Ending) Failure() frame.Failure {
	if e.Kind == "" {
		return frame.Failure{Kind: frame.KindInterrupted, Message: "the script was stopped"}
	}
	return frame.Failure{Kind: e.Kind, Message: e.Message}
}

// exit is what the system tells of a process that ended.
type exit struct {
	code      int
	killed    bool // by a signal that nobody can catch
	overCPU   bool // by the kernel's limit, where it says so
	forbidden bool // by the system call filter
	peak      int64
	cpu       time.Duration
}

// itself reports whether a process ended by itself rather than by our killing it.
func (x exit) itself() bool {
	return x.forbidden || x.overCPU || x.code == exitGoRuntime || x.code >= exitOrphaned && x.code <= exitUnconfine
}

// judge finds the kind of an ending that nobody here asked for.
func judge(x exit, lastWords string, s Settings) Ending {
	e := Ending{Detail: lastWords}
	// How the Go runtime says that the kernel gave it no memory. The last is the
	// collector's way: it does not look whether it got what it asked for. Code of ours
	// would panic instead, in other words.
	noMemory := []string{
		"fatal error: runtime: out of memory", "fatal error: runtime: cannot allocate memory",
		"fatal error: out of memory", "runtime: out of memory:", "SIGSEGV: segmentation violation",
	}
	switch {
	case x.forbidden:
		e.Kind, e.Message, e.Violation = frame.KindInterrupted, "the script's process tried what no script may do, and was ended", true
	case x.overCPU || x.killed && x.cpu >= s.CPU*3/4: // the kernel's limit counts ticks, its report does not
		e.Kind, e.Message = frame.KindTimeout, fmt.Sprintf("the script used more than %v of processor time", s.CPU)
	case x.code == exitMemory || x.code == exitGoRuntime && saysAny(lastWords, noMemory...):
		e.Kind, e.Message = frame.KindMemory, "the script wanted more memory than it may have"
	case x.code == exitGoRuntime && saysAny(lastWords, "runtime: goroutine stack exceeds", "fatal error: stack overflow"):
		e.Kind, e.Message = frame.KindStack, "the script nested too deep"
	case x.killed:
		e.Kind, e.Message = frame.KindInterrupted, fmt.Sprintf(
			"the script's process was killed from outside when it used %d MiB: by the system, if that had no more memory to give (exec.heap bounds a script), or by somebody", x.peak>>20)
	default:
		e.Kind, e.Message = frame.KindInterrupted, "the script's process ended before the script did"
	}
	return e
}

// saysAny reports whether a line begins with one of the phrases.
func saysAny(text string, phrases ...string) bool {
	for line := range strings.Lines(text) {
		for _, p := range phrases {
			if strings.HasPrefix(line, p) {
				return true
			}
		}
	}
	return false
}

// exitOf reads a process's end.
func exitOf(s *os.ProcessState) exit {
	x := exit{code: s.ExitCode(), cpu: s.UserTime() + s.SystemTime()}
	x.fromSystem(s)
	return x
}
