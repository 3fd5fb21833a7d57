package app

import (
	"io"
	"sync"

	"github.com/kimbap-run/kimbap/internal/evaluator"
	"github.com/kimbap-run/kimbap/internal/outfit"
	"github.com/kimbap-run/kimbap/internal/workers"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox"
	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// Worker turns this process into one that runs a script, or a jq expression, if its
// arguments (without the program's name) say so, and returns the exit status at its end.
// It comes before anything else that kimbap does: a worker knows no home, no settings
// and no environment.
func Worker(args []string, in io.Reader, out io.Writer) (status int, is bool) {
	switch {
	case len(args) == 0:
	case args[0] == worker.Command:
		return worker.Main(args[1:], in, out, worker.Script()), true
	case args[0] == evaluator.Command:
		return evaluator.Main(in, out), true
	}
	return 0, false
}

// Ahead is what was begun before it is known what the configuration says.
type Ahead = workers.Ahead

// StartAhead starts a worker at once, for Options.Ahead. Env is that of the process.
func StartAhead(executable string, env []string) *Ahead {
	return workers.StartAhead(executable, outfit.NewEnvironment(env)["SSL_CERT_FILE"])
}

// scripts is what an App has for script mode.
type scripts struct {
	sync.Mutex
	runner *sandbox.Runner // nil: not asked for yet
}

// crew says which processes run scripts; a short command keeps none ready.
func (a *App) crew() workers.Options {
	c := a.config.Current().Exec
	o := workers.Options{Executable: a.o.Executable, CPU: c.CPU.Duration(), Heap: int64(c.Heap), Ahead: a.o.Ahead, Log: a.o.Log}
	if a.o.Slot != "" {
		o.Kept = min(c.Workers, 2)
	}
	return o
}

// noProgram is for a process that cannot tell which file it is, and so starts no workers.
func noProgram() *runtime.Error {
	return &runtime.Error{
		Code: runtime.CodeInternal, Msg: "there is nothing to start scripts with: the system does not tell kimbap which file its program is",
		Hint: "on Linux /proc tells that: mount it",
	}
}
