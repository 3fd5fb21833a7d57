package runner

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
)

// Signals are those that would end this process, held back from it.
type Signals struct{ came chan os.Signal }

// ending are the signals that are held back.
var ending = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}

// Catch takes the signals that would end this process. It comes before anything is made
// that they would leave behind, and before the program is started, so that none is lost in
// between. The terminal sends INT, QUIT and TSTP to the whole group: of those we only must
// not die before the program does. What is ignored, as HUP by nohup, stays so.
func Catch() *Signals {
	s := &Signals{came: make(chan os.Signal, 4)}
	for _, of := range ending {
		if !signal.Ignored(of) {
			signal.Notify(s.came, of)
		}
	}
	return s
}

// settling is how long after the program's end signals do not end this process yet. The terminal
// sent INT and QUIT to both, and a busy machine may deliver ours only once the program's end
// is known. Go would say all its goroutines on QUIT, and either would take the place of the
// program's own exit code. HUP comes twice when a terminal closes, from the system and from
// the shell, and the second would leave the token and the folder of the run behind; so would
// a TERM for the whole group.
const settling = time.Second

// Stop lets them end this process again, after [settling]. It may be called again.
func (s *Signals) Stop() {
	late := make(chan os.Signal, 1)
	for _, of := range ending {
		if !signal.Ignored(of) {
			signal.Notify(late, of)
		}
	}
	signal.Stop(s.came)
	time.AfterFunc(settling, func() { signal.Stop(late) })
}

// Interrupted is returned by [Run] when a signal came before the program was started,
// which then is not.
type Interrupted struct{ By syscall.Signal }

// Error implements error.
func (e *Interrupted) Error() string { return "nothing was started: " + e.By.String() }

// ExitCode is what shells use for a program that a signal ended.
func (e *Interrupted) ExitCode() int { return 128 + int(e.By) }

// ender is the signal that ends a program of a run that is stopped. On Windows, which knows no
// other for another process, that leaves it no time.
func ender(system string) os.Signal {
	if system == "windows" {
		return os.Kill
	}
	return syscall.SIGTERM
}

// start starts a process, unless a signal would have ended this one before.
func (s *Signals) start(cmd *exec.Cmd) error {
	if err := s.interrupted(); err != nil {
		return err
	}
	return system.Start(cmd)
}

// interrupted is an [Interrupted] if a signal has come, else nil.
func (s *Signals) interrupted() error {
	select {
	case by := <-s.came:
		if by, ok := by.(syscall.Signal); ok {
			return &Interrupted{by}
		}
	default:
	}
	return nil
}

// wait passes signals on until the process has ended, and returns its code. At a terminal
// this process stops when that one does.
func (s *Signals) wait(cmd *exec.Cmd) (int, error) {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	stops := watchStops(cmd.Process)
	defer stops.end()
	for {
		select {
		case by := <-s.came:
			if by == syscall.SIGTERM || by == syscall.SIGHUP || by == os.Kill {
				_ = cmd.Process.Signal(by)
			}
		case <-stops.changed:
			stops.look()
		case <-stops.confirm:
			stops.follow()
		case err := <-done:
			return exitCode(err)
		}
	}
}
