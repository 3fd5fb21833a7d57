package audit

import (
	"errors"
	goruntime "runtime"
	"time"
)

// lead commits the group in the goroutine of the caller, if nobody else is
// writing: a request that is alone waits for the disk and not for two changes of
// goroutine as well. It reports whether the group is taken care of.
func (l *Log) lead(g *group) bool {
	if !l.baton.TryLock() {
		return false
	}
	defer l.baton.Unlock()
	l.gather()
	if !l.takeThis(g) {
		return true // it was written meanwhile
	}
	whole := false
	defer func() {
		if whole {
			return
		}
		l.ledger.Close() // a panic, which the pipeline keeps to its request: what was written is not known
		g.err = l.refuse(errPanicked)
		l.keep(g.lines)
		close(g.done)
		signal(l.urgent)
	}()
	l.write(g)
	whole = true
	close(g.done)
	if l.trouble.Load() != nil {
		signal(l.urgent) // who writes next sets the clock for a recovery
	}
	return true
}

// How long others are let go first.
const (
	yields  = 2                    // times that all threads of the machine are
	ownWork = 4 * time.Millisecond // what takes longer was not work on requests
	rushFor = 25                   // times as long as that took, nobody is
)

// gather lets those go first who are ready to run, when the group before was of several
// callers: what they record then goes with this group instead of waiting for a sync of
// its own. These are the goroutines of this process and, where the processors are busy,
// the threads that the next requests and answers come from. Time that goes to somebody
// else's work beside them brings no records, and is not given for a while. Who is alone
// waits for nobody. The caller holds the baton.
func (l *Log) gather() {
	if !l.crowded {
		return
	}
	goruntime.Gosched()
	began := l.o.Clock()
	if began.Before(l.rush) {
		return
	}
	for range yields {
		l.o.Yield()
		now := l.o.Clock()
		if took := now.Sub(began); took > ownWork {
			l.rush = now.Add(rushFor * took)
			return
		}
	}
}

var errPanicked = errors.New("the writing of the trail ended in a panic")

// takeThis is take for a group that may have been taken.
func (l *Log) takeThis(g *group) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.group != g {
		return false
	}
	l.group = newGroup()
	return true
}
