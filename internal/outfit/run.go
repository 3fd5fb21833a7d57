package outfit

import (
	"io"

	"github.com/kimbap-run/kimbap/internal/runner"
)

// Run is what `kimbap run` is told, wherever the program's kimbap is.
type Run struct {
	Command        []string
	Agent          string
	Unattended     bool
	Isolate        bool // in a network whose only way out is the proxy
	NoCover        bool
	Version        string   // of this kimbap, for its program's MCP clients
	Self           []string // command that leads to runner.Covered
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Say            func(line string)
	Signals        *runner.Signals // that were caught before; nil: from the start on
	Stop           <-chan struct{} // ends the program, by SIGTERM (on Windows outright), when it is closed; nil: nothing does
	Bare           func()          // called before a program starts that nothing is covered from; may be nil
}

// Program is what the runner is told of it. What of the environment is secret, what is
// covered and which network the program has is for the caller to add.
func (r Run) Program(env []string, place runner.Place, known Catalogue) runner.Options {
	return runner.Options{
		Command: r.Command, Env: env, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr, Say: r.Say,
		Self: r.Self, Signals: r.Signals, Stop: r.Stop, Bare: r.Bare, Place: place, SecretNames: known.Variables(),
	}
}
