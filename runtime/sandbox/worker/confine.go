package worker

import (
	goruntime "runtime"
	"runtime/debug"
	"time"

	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
)

// Threads of a worker. Two run at once, so that the collector and the watch of the
// heap go on while the script keeps one busy.
const (
	atOnce     = 2
	maxThreads = 32 // beyond them the Go runtime ends the process
)

// Confine gives up, for this process and for good, what a script must never have.
// It is called once, before anything of the script is read, and says what then
// holds. After an error the process has to end.
func Confine(s Settings) (frame.Level, error) {
	if err := fit(); err != nil {
		return "", err
	}
	s = s.withDefaults()
	goruntime.GOMAXPROCS(min(atOnce, goruntime.NumCPU()))
	debug.SetMaxThreads(maxThreads)
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(s.Heap)
	// A script sees one time zone everywhere, and none is read from a file later.
	time.Local = time.UTC
	// The first timer of a process opens the poller's descriptors. Later it cannot.
	time.AfterFunc(time.Hour, func() {}).Stop()
	return confineSystem(s)
}
