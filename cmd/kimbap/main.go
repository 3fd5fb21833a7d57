// Command kimbap lets agents and scripts act on real APIs without holding the
// keys. One file per subcommand; root.go lists them. This package reads flags,
// talks to the terminal and chooses exit codes (exit.go); everything else is
// internal/app's.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/kimbap-run/kimbap/internal/app"
)

func main() {
	if status, is := app.ScriptWorker(os.Args[1:], os.Stdin, os.Stdout); is {
		os.Exit(status)
	}
	// net/http prints bytes of upstreams through the standard logger, and those
	// may hold a reflected credential. Nothing of ours uses it.
	log.SetOutput(io.Discard)
	os.Exit(run(executable()))
}

// executable is this program's own file: it runs the workers of scripts too.
func executable() string {
	path, err := os.Executable()
	if err != nil {
		return "" // script mode says that it has none
	}
	return path
}

// run is one invocation whose scripts are run by a program.
func run(executable string) int {
	c := &cli{
		executable: executable,

		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		args: os.Args[1:], env: os.Environ(), uid: os.Getuid(),
	}
	defer c.startAhead()()
	c.inTTY, c.outTTY, c.errTTY, c.width = isTerminal(os.Stdin), isTerminal(os.Stdout), isTerminal(os.Stderr), widthOf(os.Stdout)
	return execute(context.Background(), c)
}
