package audit

import (
	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// What the ledger gets without any required sink being asked: what takes a right away, and
// how requests ended while a sink fails. The sinks get it in its turn.

// Insist is Event for what takes a right away, which nobody may hinder by a sink that fails or
// hangs: it returns when the disk has the record. The required sinks get it soon after, with
// what else they have missed, in this process or the next; [Log.Flush] waits for them. An
// error says that it is not recorded. It does not stop early when its caller goes away: it
// waits for who is writing, which may take as long as a sink may.
func (l *Log) Insist(ev record.Event) error {
	l.baton.Lock()
	defer l.baton.Unlock()
	e := l.trouble.Load()
	if e != nil && (!l.o.Shared && l.ledger.File() == nil || noTurn(e)) {
		return e
	}
	lines, open := l.gathered()
	if !open {
		return l.refusal(errClosed)
	}
	if err := l.alone(append(lines, l.event(ev))); err != nil {
		l.keep(lines)
		signal(l.urgent) // who writes next sets the clock for a recovery
		return l.refuse(err)
	}
	l.free(lines)
	l.arm()
	return nil
}

// Announce is Insist for who may not wait for a sink: while requests pass, or only a sink keeps
// them from it, the record is noted, and the ledger has it before any request that comes later.
func (l *Log) Announce(ev record.Event) error {
	if e := l.trouble.Load(); e != nil && !sunk(e) {
		return l.Insist(ev)
	}
	l.Note(ev)
	return nil
}

// save gives the ledger what a sink that fails must not take from it: a kill would make of
// an outcome that is in memory alone one that nobody knows. The sink gets these lines in their
// turn, with what else it has missed. Where it is the ledger that fails they are kept.
func (l *Log) save(lines []*line, why error) {
	var out []*line
	for _, ln := range lines {
		if unasked(ln) {
			out = append(out, ln)
		}
	}
	l.mu.Lock()
	all := append(l.kept[:len(l.kept):len(l.kept)], out...)
	l.mu.Unlock()
	if len(all) == 0 {
		return
	}
	fails := l.ledger.File() == nil
	if l.o.Shared {
		fails = noTurn(why) // which was waited for
	}
	if fails {
		l.keep(out)
		return
	}
	if err := l.alone(all); err != nil {
		l.keep(out)
		l.fail(err)
		return
	}
	l.mu.Lock()
	l.kept = nil
	l.mu.Unlock()
	l.free(out)
}

// fail takes up that the ledger fails too, while the log refuses already.
func (l *Log) fail(err error) {
	l.mention(err)
	l.trouble.Store(l.refusal(err))
	if system.Full(err) && l.reserve.give() {
		l.rescue()
	}
}

// alone appends lines to the ledger, durably, and asks no required sink.
func (l *Log) alone(lines []*line) error {
	if l.o.Shared {
		if err := l.await(); err != nil {
			return err
		}
		defer func() {
			l.desk.book.Close()
			_ = l.lock.Release()
		}()
		if err := l.refresh(); err != nil {
			return err
		}
	}
	if err := l.append(lines, true); err != nil {
		return err
	}
	l.offer(l.slot, l.ledger.Written())
	for _, f := range l.desk.feeds {
		f.lacks(mark(l.ledger))
		l.owing = true
	}
	return nil
}

// gathered takes from the group that gathers what nobody waits for, with what was kept before
// it: that stands before what is written now. It is false when the log is closed.
func (l *Log) gathered() (lines []*line, open bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.group == nil {
		return nil, false
	}
	lines, l.kept = l.kept, nil
	for i, ln := range l.group.lines {
		if unasked(ln) {
			lines = append(lines, ln)
			l.group.lines[i] = nil
		}
	}
	return lines, true
}

// whole reports whether the ledger has all that there was: only a sink lacks of it, or the turn
// came at last.
func (l *Log) whole(e *runtime.Error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return (sunk(e) || noTurn(e)) && len(l.kept) == 0 && l.lost == 0
}
