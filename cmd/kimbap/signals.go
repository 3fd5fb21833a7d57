package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kimbap-run/kimbap/internal/app"
)

// interruptible returns a context that ends at SIGINT and SIGTERM, of which it is the
// cause. A second one ends the process at once: whoever asks twice does not want to wait. That
// the same one comes twice at once is no second asking, see sameAgain.
func (c *cli) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if by := c.stopped.Load(); by != nil { // between two pieces of the work
		cancel(by)
		return ctx, func() {}
	}
	came := make(chan os.Signal, 2)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case by := <-came:
			c.stop(by)
			if !c.outlives { // the whole group was told: what feeds a command ends too, and what has come by then is not all
				cancel(c.stopped.Load())
			}
			if other := otherThan(by, came, time.After(sameAgain)); other != nil {
				signal.Stop(came) // which would catch it again
				endBy(other)
			}
		case <-ctx.Done():
		}
		signal.Stop(came) // before anything ends: a second one that comes at once must not be taken for the first
		select {
		case by := <-came: // it came before that
			if !c.stop(by) {
				endBy(by)
			}
		default:
		}
		if by := c.stopped.Load(); by != nil {
			cancel(by)
		}
	}()
	return ctx, func() { cancel(nil) }
}

// sameAgain is how long the same signal is the one that came: timeout(1) sends its own to the
// program, and at once to the whole group. What serves begins to end afterwards, so that whoever
// sees that, and then asks again, is heard.
const sameAgain = 100 * time.Millisecond

// otherThan is another signal than the first one that comes before the time is over, else nil.
func otherThan(first os.Signal, came <-chan os.Signal, over <-chan time.Time) os.Signal {
	for waits := true; waits || len(came) > 0; { // on a busy machine both may be there: what came counts
		select {
		case by := <-came:
			if by != first {
				return by
			}
		case <-over:
			waits = false
		}
	}
	return nil
}

// outliveReaders has this process go on when nobody reads its stdout or stderr any more: what
// is under way has its outcome, and what was made is removed. Such a write fails then, where Go
// would end the process. Caught and not ignored, as the programs that it starts would inherit that.
func (c *cli) outliveReaders() {
	c.outlives = true
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// untilEnded readies the process to serve until it is ended, and says so where the vault is
// locked, or a stored key is for hosts that nothing intercepts. Each SIGHUP until stop asks for the files to be read anew.
func (c *cli) untilEnded(ctx context.Context, a *app.App) (hup <-chan os.Signal, stop func()) {
	c.warnLocked(a.Locked(), "")
	c.warnIdle(ctx, a)
	longLived()
	came := make(chan os.Signal, 1)
	signal.Notify(came, syscall.SIGHUP)
	return came, func() { signal.Stop(came) }
}

// stop notes the signal that told this command to end; false when one has before.
func (c *cli) stop(by os.Signal) bool {
	first := c.stopped.CompareAndSwap(nil, &app.Stopped{By: by})
	if first && c.told != nil {
		close(c.told)
	}
	return first
}

// bounded is interruptible, with the end that --timeout sets. Every command works in it.
func (c *cli) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := c.interruptible(ctx)
	if c.timeout <= 0 {
		return ctx, stop
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	return ctx, func() { cancel(); stop() }
}

// stops is the exit code of a command that did not end well after a signal told it to end:
// that of the signal, whatever the command was doing. What serves until then ends well.
func (c *cli) stops(exit int) int {
	if by := c.stopped.Load(); by != nil && exit != exitOK {
		return exitBy(by.By)
	}
	return exit
}

// leave ends the process with an exit code, by the signal itself where that ended the
// command: a shell goes on with its loop behind a program that ended by itself.
func (c *cli) leave(exit int) {
	if by := c.stopped.Load(); by != nil && exit == exitBy(by.By) {
		endBy(by.By)
	}
	os.Exit(exit)
}

// endBy ends the process as a signal does that nothing waits for. The first process of a
// container, which it is where it could start no child (underInit), cannot end so.
func endBy(s os.Signal) {
	signal.Reset(s) // which may be caught still
	if self, err := os.FindProcess(os.Getpid()); err == nil && os.Getpid() != 1 && self.Signal(s) == nil {
		time.Sleep(time.Second) // it is on its way
	}
	os.Exit(exitBy(s))
}

// exitBy is what shells say of a program that a signal ended.
func exitBy(s os.Signal) int {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + int(number)
	}
	return exitInterrupted
}
