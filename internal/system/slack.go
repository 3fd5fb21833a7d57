package system

import "os/exec"

// WidenTimerSlack lets the kernel end the sleeps of this process a millisecond late, so
// that it can end several at once. Go's scheduler has a thread that looks after the others
// and sleeps for 20 microseconds between two looks while anything is at work; with the
// kernel's own 50 it took a tenth of a busy proxy's processor time, half of it by putting
// to sleep whoever was at work. Timers of ours count in milliseconds and more. A thread of Go
// that steals work sleeps for 3 microseconds first, which ends late too: a goroutine that
// was made ready by one that then stays in a system call waits longer than before.
//
// It is to be called once, at the start. What the process starts for others is started by
// [Start]. On systems other than Linux, and in a program with cgo, it does nothing.
func WidenTimerSlack() { widenTimerSlack() }

// Start is cmd.Start, on a thread whose timers are as exact as this process found them:
// what is started inherits that.
func Start(cmd *exec.Cmd) error { return asGiven(cmd.Start) }

// Run is cmd.Run, with [Start].
func Run(cmd *exec.Cmd) error { return run(cmd, Start) }

// RunCoreless is cmd.Run, with [Start], of a program that leaves no core file; its other limits
// are those of this process. It may raise that one again by itself.
func RunCoreless(cmd *exec.Cmd) error {
	return run(cmd, func(cmd *exec.Cmd) error { return withoutCore(func() error { return Start(cmd) }) })
}

func run(cmd *exec.Cmd, start func(*exec.Cmd) error) error {
	if err := start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}
