package audit

import (
	"errors"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// unasked reports whether a line is one that nobody waits for. Of an intent or an event of a
// group that failed nobody was told that it is recorded.
func unasked(ln *line) bool {
	return ln != nil && ln.Kind != record.KindIntent && (ln.Kind != record.KindEvent || ln.Noted)
}

// keep holds outcomes and refusals back until the ledger can be written again.
func (l *Log) keep(lines []*line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ln := range lines {
		switch {
		case !unasked(ln):
		case len(l.kept) >= l.o.Kept:
			l.lost++
		default:
			l.kept = append(l.kept, ln)
		}
	}
}

// recover tries to go on after a failure: reopen, compare with what was durable,
// write what was kept and a record of the gap. Only then requests pass again.
func (l *Log) recover() {
	e := l.trouble.Load()
	l.hasty = true
	defer func() { l.hasty = false }()
	if err := l.reopen(e); err != nil {
		l.trouble.Store(l.refusal(err))
		return
	}
	l.trouble.Store(nil)
}

// reopen is the way back, step by step; the first that fails ends it.
func (l *Log) reopen(e *runtime.Error) error {
	if l.ledger.File() == nil && !l.o.Shared {
		if err := l.ledger.Reopen(); err != nil {
			return err
		}
	}
	if err := l.repay(); err != nil {
		l.save(nil, err)
		return err
	}
	if err := l.reserve.keep(); err != nil { // the disk is still as full as it was
		l.rescue()
		return err
	}
	now := l.o.Clock()
	l.mu.Lock()
	lines := append([]*line(nil), l.kept...)
	gap := recovered(e.Err, l.lost, now)
	l.mu.Unlock()
	err := l.put(append(lines, gap), true)
	if gap.Seq != 0 { // the ledger has them, also when a sink failed
		l.mu.Lock()
		l.kept, l.lost = nil, 0
		l.mu.Unlock()
	} else if system.Full(err) && l.reserve.give() {
		l.rescue()
	}
	return err
}

// repay gives the required sinks what they have missed.
func (l *Log) repay() error {
	if l.o.Shared {
		if len(l.desk.feeds) == 0 {
			return nil
		}
		done, err := l.turn()
		if err == nil {
			done()
		}
		return err
	}
	until := l.slice()
	if err := l.settleUp(until); err != nil {
		return err
	}
	if err := l.sweep(until); err != nil {
		return err
	}
	return l.settleUp(until) // a loss there is a record here
}

// lastKept writes at the end what was kept, to the ledger alone: where only a sink has
// failed the ledger can say how these requests ended, and the next start need not say that
// nobody knows.
func (l *Log) lastKept() {
	l.mu.Lock()
	lines := l.kept
	l.mu.Unlock()
	if len(lines) == 0 || l.alone(lines) != nil {
		return
	}
	l.mu.Lock()
	l.kept = nil
	l.mu.Unlock()
}

// turn takes the lock of a shared slot until the result is called, and finds out where its
// ledger and the required sinks are by now. What these lack of what others wrote they get
// first.
func (l *Log) turn() (done func(), err error) {
	if err := l.await(); err != nil {
		return nil, err
	}
	done = func() {
		l.desk.book.Close()
		_ = l.lock.Release()
	}
	if err = l.refresh(); err == nil && len(l.desk.feeds) > 0 {
		if err = l.arrange(); err == nil {
			err = l.settleUp(l.slice())
		}
	}
	if err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// turnAgain is how long a log that refuses waits for its turn each time that it tries to go
// on: it has waited before, and others wait for it.
const turnAgain = 100 * time.Millisecond

// await takes the lock of a shared slot.
func (l *Log) await() error {
	if l.hasty {
		return l.lock.WaitFor(turnAgain)
	}
	return l.lock.Wait()
}

// refresh finds out where the ledger of a shared slot is by now, whose lock we hold.
func (l *Log) refresh() error {
	if l.begun {
		return l.ledger.Refresh()
	}
	err := l.begin()
	l.offer(l.slot, l.settled)
	l.settled = nil
	return err
}

// noTurn reports whether somebody else has kept the turn at a shared slot for too long. A
// sink may have a lock of its own.
func noTurn(err error) bool {
	failed := (*outlet.Failure)(nil)
	return errors.Is(err, system.ErrTaken) && !errors.As(err, &failed)
}

// sunk reports whether it is a sink that keeps the log from going on. At the end of a
// process nobody waits for it: the ledger has what it lacks, and gets what was kept.
func sunk(e *runtime.Error) bool {
	failed := (*outlet.Failure)(nil)
	return errors.As(e, &failed) || errors.Is(e, errArrears)
}

// pause is the time until the next attempt to recover: none while a sink gets what it missed.
func pause(e *runtime.Error) time.Duration {
	if errors.Is(e, errArrears) {
		return 0
	}
	return retryInterval
}
