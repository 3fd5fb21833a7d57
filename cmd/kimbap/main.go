// Command kimbap lets agents and scripts act on real APIs without holding the
// keys. One file per subcommand; root.go lists them. This package reads flags,
// talks to the terminal and chooses exit codes (exit.go); everything else is
// internal/app's.
//
// It judges no request and opens no credential, and takes no stored value as an
// argument, where other processes would see it.
//
// Start reading at run, then root.go and any command, such as call.go.
package main

import (
	"context"
	"io"
	"log"
	"os"
	goruntime "runtime"

	"github.com/kimbap-run/kimbap/internal/app"
	"github.com/kimbap-run/kimbap/internal/system"
)

func main() {
	stayOnFirstThread()
	if status, is := app.Worker(os.Args[1:], os.Stdin, os.Stdout); is {
		os.Exit(status)
	}
	if status, is := underInit(); is {
		os.Exit(status)
	}
	// net/http prints bytes of upstreams through the standard logger, and those
	// may hold a reflected credential. Nothing of ours uses it.
	log.SetOutput(io.Discard)
	c := &cli{executable: executable()}
	c.leave(run(c))
}

// stayOnFirstThread has the covering process do all on the thread by which others know it: the
// one that is confined with the program, so that this may signal its parent.
func stayOnFirstThread() {
	if len(os.Args) > 1 && os.Args[1] == coverCommand {
		goruntime.LockOSThread()
	}
}

// ownFile is the file that runs, on Linux, also when an update has put another one in its place
// or has removed it.
const ownFile = "/proc/self/exe"

// executable is this program's own file: it runs the workers of scripts too, which have to be of
// the same version.
func executable() string {
	if _, err := os.Stat(ownFile); err == nil {
		return ownFile
	}
	path, err := os.Executable()
	if err != nil {
		return "" // script mode says that it has none
	}
	return path
}

// run is one invocation, with what the process gives filled in.
func run(c *cli) int {
	app.HurryCollector()
	system.WidenTimerSlack()
	c.told = make(chan struct{})
	c.in, c.out, c.err = os.Stdin, newOutput(os.Stdout, c.told), os.Stderr
	c.args, c.env, c.uid = os.Args[1:], system.Environment(os.Environ()), os.Getuid()
	defer c.startAhead()()
	c.inTTY, c.outTTY, c.errTTY, c.width = isTerminal(os.Stdin), isTerminal(os.Stdout), isTerminal(os.Stderr), widthOf(os.Stdout)
	return execute(context.Background(), c)
}

// longLived is for commands that serve until they are ended. Who sets GOMAXPROCS is
// believed.
func longLived() {
	_, said := os.LookupEnv("GOMAXPROCS")
	app.LongLived(!said)
}
