package app

import (
	"io"

	"github.com/kimbap-run/kimbap/runtime/sandbox/worker"
)

// ScriptWorker turns this process into one that runs a script, if its arguments
// (without the program's name) say so, and returns the exit status at its end. It
// comes before anything else that kimbap does: a worker knows no home, no settings
// and no environment.
func ScriptWorker(args []string, in io.Reader, out io.Writer) (status int, is bool) {
	if len(args) == 0 || args[0] != worker.Command {
		return 0, false
	}
	return worker.Main(args[1:], in, out, worker.Script()), true
}
