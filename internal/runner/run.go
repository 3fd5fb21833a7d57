package runner

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	goruntime "runtime"
	"strings"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Options say what to start and behind what.
type Options struct {
	Command []string
	Env     []string // the environment to clean and extend, NAME=value
	Dir     string   // working directory, "" for the current one
	UserDir string   // the user's home folder, for what can still be read

	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Say            func(line string) // one line for the person

	Place       Place
	SecretNames []string          // variables that usually hold a key
	IsSecret    func(string) bool // whether a value holds a stored credential
	Placeholder func(string) bool // whether a value only stands in for one; may be nil
	GitHosts    []string          // hosts where git must not bring its own credential
	Cover       []string          // folders and files that the program must not see
	Apart       bool              // out of sight of this process, also where nothing is to be covered
	Covered     func()            // called as soon as a program runs that all of Cover is covered from; may be nil
	Bare        func()            // called before a program is started that nothing is covered from; may be nil
	Self        []string          // command that leads to [Covered], for covering
	Signals     *Signals          // that were caught before; nil: they are caught from here on
	Stop        <-chan struct{}   // ends a program that is not covered, by SIGTERM (on Windows outright); nil: nothing does
	Isolate     *Isolation        // nil: the program has the network of this machine
}

func (o *Options) check() error {
	switch {
	case len(o.Command) == 0:
		return errors.New("runner: no command")
	case o.Say == nil || o.IsSecret == nil:
		return errors.New("runner: Options.Say and Options.IsSecret are required")
	case o.Place.Proxy == "" || o.Place.CA == "" || o.Place.Bundle == "" || o.Place.Settings == "":
		return errors.New("runner: Options.Place is not complete")
	case o.coverable() && len(o.Self) == 0:
		return errors.New("runner: covering needs Options.Self")
	case o.Isolate != nil && o.Isolate.Serve == nil:
		return errors.New("runner: Isolation.Serve is required")
	}
	return nil
}

// coverable reports whether the program goes into namespaces of its own. From there
// it cannot look into this process either, whoever's both are.
func (o *Options) coverable() bool { return len(o.Cover) > 0 || o.Apart || o.Isolate != nil }

// NotFound is returned by [Run] when there is no such program.
type NotFound struct{ Program string }

// Error implements error.
func (e *NotFound) Error() string { return "there is no program " + e.Program }

// ExitCode is what shells use for a program that is not there.
func (e *NotFound) ExitCode() int { return 127 }

// CannotStart is returned by [Run] for a program that is there and cannot be
// executed, or not from where it would see no covered folder.
type CannotStart struct {
	Program string
	Err     error
	fix     string
}

// Error implements error.
func (e *CannotStart) Error() string { return fmt.Sprintf("cannot start %s: %v", e.Program, e.Err) }

// Fix is what helps, "" where that is another program.
func (e *CannotStart) Fix() string { return e.fix }

// Unwrap gives what the system said.
func (e *CannotStart) Unwrap() error { return e.Err }

// ExitCode is what shells use for a program that cannot be executed.
func (e *CannotStart) ExitCode() int { return 126 }

// cannotCover says that a folder could not be covered; nothing was started.
type cannotCover struct {
	why     string
	refused bool // by the system, whenever it is asked
}

func (e *cannotCover) Error() string { return "cannot cover: " + e.why }

// Run starts the program, waits for it and returns its exit code: 128 plus the
// signal's number when a signal ended it, as shells do. Signals of the terminal
// reach the program by itself; SIGTERM and SIGHUP are passed on. Soon after it returns,
// see [settling], they end this process again.
func Run(o Options) (int, error) {
	if err := o.check(); err != nil {
		return 0, err
	}
	if o.Signals == nil {
		o.Signals = Catch()
	}
	defer o.Signals.Stop()
	env, removed := clean(o.Env, o.SecretNames, o.IsSecret, o.Placeholder)
	if len(removed) > 0 {
		o.Say("taken out of the program's environment: " + strings.Join(removed, ", "))
	}
	program, err := look(o.Command[0], env)
	if err != nil {
		return 0, err
	}
	if o.Isolate != nil {
		for _, name := range leads {
			env = unset(env, name)
		}
	}
	if rest := namesOf(readable(o.UserDir, o.Dir, env, o.Placeholder), o.Isolate != nil); len(rest) > 0 {
		o.Say("the program could still read: " + strings.Join(rest, ", "))
	}
	env = extend(env, o.Place, o.GitHosts)
	start := func() *exec.Cmd { return command(o, append([]string{program}, o.Command[1:]...), env) }
	if o.coverable() {
		code, err := covered(o, start)
		var refused *cannotCover
		if !errors.As(err, &refused) {
			return code, err
		}
		if err := o.goWithout(refused); err != nil {
			return 0, err
		}
	}
	return o.bare(start())
}

// goWithout says that the program will not be covered, where the system lets nobody do
// that. An error refuses the run.
func (o *Options) goWithout(refused *cannotCover) error {
	if o.Isolate != nil {
		return cannotIsolate(refused.why)
	}
	what := strings.Join(o.Cover, ", ")
	if what == "" {
		what = "this process"
	}
	if !refused.refused {
		return notCovered(what, refused.why)
	}
	o.Say(fmt.Sprintf("%s is not covered, the program could read it: %s", what, refused.why))
	return nil
}

// lastWords is how long after the end of a program that can be stopped is waited for what it has
// started.
const lastWords = time.Second

// bare starts a program from which nothing is covered, and waits for it.
func (o *Options) bare(cmd *exec.Cmd) (int, error) {
	if o.Bare != nil {
		o.Bare()
	}
	if o.Stop != nil { // what the program has started may go on, and have its output open
		cmd.WaitDelay = lastWords
	}
	err := o.Signals.start(cmd)
	if script := asScript(cmd, err); script != nil {
		again := command(*o, script, cmd.Env)
		again.WaitDelay, cmd = cmd.WaitDelay, again
		err = o.Signals.start(cmd)
	}
	if err != nil {
		var interrupted *Interrupted
		if errors.As(err, &interrupted) {
			return 0, err
		}
		return 0, &CannotStart{Program: o.Command[0], Err: err}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-o.Stop:
		case <-ended:
			return
		}
		select {
		case o.Signals.came <- ender(goruntime.GOOS):
		case <-ended: // nobody reads it any more
		}
	}()
	return o.Signals.wait(cmd)
}

// notCovered refuses a run on a system that lets us cover, and did not this time. What
// an earlier program has left running can see to that: it may end the covering process,
// or hold all namespaces that the user may have.
func notCovered(what, why string) error {
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Msg: what + " could not be covered, and nothing was started: " + why,
		Hint: "end what earlier programs have left running, and try again (--no-cover goes without, and the program could read it)",
	}
}

// command prepares one process on our terminal. No context ends it: the
// terminal's signals reach it directly, and wait passes the others on.
func command(o Options, argv, env []string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = env, o.Dir
	cmd.Stdin, cmd.Stdout, cmd.Stderr = o.Stdin, o.Stdout, o.Stderr
	return cmd
}

func exitCode(err error) (int, error) {
	if errors.Is(err, exec.ErrWaitDelay) { // it ended well
		return 0, nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
