package worker

import (
	"fmt"
	"strconv"
	"time"
)

// Command is the first argument that makes a kimbap a worker. It is no command of
// the tool: nobody types it, and no help shows it.
const Command = "__script-worker"

// The bounds of a worker when Settings leaves them out.
const (
	defaultCPU  = 10 * time.Second
	defaultHeap = 96 << 20
)

// Sizes that go with the heap, in bytes.
const (
	leastData = 256 << 20 // what the process may have in all
	besides   = 64 << 20  // the program itself and its stacks
	maxStack  = 64 << 20  // of one goroutine, while a source is read
	runStack  = 4 << 20   // of one goroutine, while it runs: one that nests natively ends here at once
)

// Settings are the bounds that a worker sets itself before it reads anything. They
// are the process's; those of one script come in frame.Limits and lie within.
type Settings struct {
	CPU  time.Duration // of all its threads together, in whole seconds; 0: 10 s
	Heap int64         // bytes; 0: 96 MiB
}

// Defaults are what zero values stand for.
func Defaults() Settings { return Settings{}.withDefaults() }

// withDefaults fills in what was left out.
func (s Settings) withDefaults() Settings {
	if s.CPU <= 0 {
		s.CPU = defaultCPU
	}
	if s.Heap <= 0 {
		s.Heap = defaultHeap
	}
	return s
}

// cpuSeconds is the limit as the kernel counts it, rounded up.
func (s Settings) cpuSeconds() uint64 {
	return uint64((s.CPU + time.Second - 1) / time.Second)
}

// data is what the process may map in all, in bytes: a heap of twice its size fits,
// because the collector leaves garbage for a while.
func (s Settings) data() uint64 {
	return uint64(max(leastData, 2*s.Heap+besides))
}

// arguments are the settings as a worker's command line has them.
func (s Settings) arguments() []string {
	s = s.withDefaults()
	return []string{Command, strconv.FormatInt(int64(s.CPU/time.Millisecond), 10), strconv.FormatInt(s.Heap, 10)}
}

// parseSettings reads what arguments wrote, without Command.
func parseSettings(args []string) (Settings, error) {
	if len(args) != 2 {
		return Settings{}, fmt.Errorf("a worker takes two arguments, not %d", len(args))
	}
	ms, err1 := strconv.ParseInt(args[0], 10, 64)
	heap, err2 := strconv.ParseInt(args[1], 10, 64)
	if err1 != nil || err2 != nil || ms <= 0 || heap <= 0 {
		return Settings{}, fmt.Errorf("a worker takes milliseconds and bytes, not %q", args)
	}
	return Settings{CPU: time.Duration(ms) * time.Millisecond, Heap: heap}, nil
}
