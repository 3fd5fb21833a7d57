package audit

import (
	"errors"
	goruntime "runtime"
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
		l.ledger.close() // a panic, which the pipeline keeps to its request: what was written is not known
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

// gather lets the goroutines that are ready to run go first, when the group before
// was of several callers: what they record then goes with this group instead of
// waiting for a sync of its own. Who is alone waits for nobody. The caller holds
// the baton.
func (l *Log) gather() {
	if l.crowded {
		goruntime.Gosched()
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
