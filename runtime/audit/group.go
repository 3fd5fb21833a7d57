package audit

import (
	"context"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// group is the records that are written and made durable together. The next
// one gathers while the disk is busy with this one.
type group struct {
	lines   []*line // nil: taken back by a caller who went away
	callers int     // who wait for it
	last    bool    // somebody waits for the disk, not only for the file
	err     error   // valid when done is closed
	done    chan struct{}
}

// line is one encoded record on its way to the ledger.
type line = ledger.Line

func newGroup() *group { return &group{done: make(chan struct{})} }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (l *Log) line(kind record.Kind) *line {
	ln := l.lines.Get().(*line)
	*ln = line{Body: ln.Body[:0], At: l.o.Clock(), Kind: kind}
	return ln
}

// enter writes a line, or hands it to who is writing, and waits for its group: until it
// is written, and with last until it is durable, on the disk or in the required sinks. A nil
// line waits until the disk has what came before it. The number is not 0 when the ledger holds the record, also with an error: then a
// required sink has failed.
func (l *Log) enter(ctx context.Context, ln *line, last bool) (uint64, error) {
	if err := l.Ready(); err != nil {
		return 0, err
	}
	l.mu.Lock()
	g := l.group
	if g == nil {
		l.mu.Unlock()
		return 0, l.refusal(errClosed)
	}
	place := len(g.lines)
	if ln != nil {
		g.lines = append(g.lines, ln)
	}
	g.callers++
	g.last = g.last || last && !(l.o.SinksLast && ln != nil)
	l.mu.Unlock()
	if ctx.Err() != nil || !l.lead(g) {
		signal(l.urgent)
	}

	select {
	case <-g.done:
	case <-ctx.Done():
		if l.withdraw(g, place, ln) {
			return 0, &runtime.Error{Code: runtime.CodeCanceled, Stage: runtime.StageAudit, Msg: "the caller went away before the request was recorded", Err: ctx.Err()}
		}
		<-g.done // the disk has it: what it did must be known
	}
	if ln == nil {
		return 0, g.err
	}
	seq := ln.Seq
	l.lines.Put(ln)
	return seq, g.err
}

// withdraw takes a line back that nobody has begun to write.
func (l *Log) withdraw(g *group, place int, ln *line) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.group != g {
		return false
	}
	if ln != nil {
		g.lines[place] = nil
	}
	return true
}

// waiting reports whether anything has gathered.
func (l *Log) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.group.lines) > 0 || l.group.callers > 0
}

// take gives the gathered group to who writes it and starts the next one, or none.
func (l *Log) take(last bool) *group {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.group
	l.group = newGroup()
	if last {
		l.group = nil
	}
	return g
}

// serve is the writer goroutine. It writes what nobody leads: outcomes, and what
// gathered while somebody wrote. Ledger and sinks are those of who holds the baton.
func (l *Log) serve() {
	defer close(l.done)
	var delay, retry, losses <-chan time.Time
	for {
		due := false // what was only written has waited long enough
		select {
		case <-l.urgent:
		case <-l.lazy:
			if delay == nil {
				delay = l.o.After(outcomeDelay)
			}
			continue
		case <-l.lossy:
			if losses == nil {
				losses = l.o.After(lossInterval)
			}
			continue
		case <-losses:
			losses = nil
			l.baton.Lock()
			l.tellLosses()
			l.baton.Unlock()
		case <-delay:
			delay, due = nil, true
			l.armed.Store(false) // before the group is taken: who comes later arms it again
		case <-retry:
			retry = nil
			l.baton.Lock()
			l.recover()
			l.baton.Unlock()
		case <-l.quit:
			l.finish()
			return
		}
		l.baton.Lock()
		if due || l.waiting() { // or it was written meanwhile, and nobody gives way for nothing
			l.gather()
			l.commit(l.take(false), due)
		}
		l.baton.Unlock()
		if e := l.trouble.Load(); retry == nil && e != nil {
			retry = l.o.After(pause(e))
		}
	}
}

// finish writes the last group and lets everything go.
func (l *Log) finish() {
	l.baton.Lock()
	defer l.baton.Unlock()
	if e := l.trouble.Load(); e != nil && !sunk(e) && !noTurn(e) {
		l.recover()
	}
	l.commit(l.take(true), true)
	var closing sync.WaitGroup
	for _, s := range l.sinks {
		closing.Go(func() { s.Close(l.o.Linger) })
	}
	closing.Wait()
	l.lastKept() // which still knows whose marks the slot has
	l.lastLosses()
	if l.trouble.Load() == nil {
		l.trouble.Store(l.refusal(errClosed))
	}
	if l.ledger.Open() == 0 && !l.o.Shared {
		_ = l.lock.End()
	}
	l.ledger.Close()
	l.desk.book.Close()
	_ = l.lock.Close()
}

// commit writes a group and wakes those who wait for it. With due everything written
// before is made durable too.
func (l *Log) commit(g *group, due bool) {
	g.last = g.last || due
	l.write(g)
	close(g.done)
}

// write writes a group. When it fails, its intents are refused; its outcomes go to the ledger
// alone, or are kept until that can be written.
func (l *Log) write(g *group) {
	if g.callers > 0 { // outcomes say nothing about it
		l.crowded = g.callers > 1
	}
	if e := l.trouble.Load(); e != nil {
		l.save(g.lines, e)
		g.err = l.trouble.Load() // another one, where the ledger fails too
	} else if err := l.put(g.lines, g.last); err != nil {
		l.refuse(err)
		if !l.written(g.lines) {
			l.save(g.lines, err)
		}
		g.err = l.trouble.Load()
	}
	if g.err == nil {
		l.free(g.lines)
	}
	if l.ledger.Behind() {
		l.arm()
	}
}

// unsyncedMost is how much may wait for the disk without anybody waiting, in bytes. It
// must stay far below maxGroup, which is how much of an end is looked through after a
// power cut.
const unsyncedMost = 1 << 20

// put appends lines to the ledger, then gives them to the sinks. With last the disk has
// them, and all before them, when it returns.
func (l *Log) put(lines []*line, last bool) error {
	last = last || l.o.Shared || l.ledger.Unsynced() > unsyncedMost
	if empty(lines) && !(last && (l.ledger.Behind() || l.owing)) {
		return nil
	}
	if l.o.Shared {
		done, err := l.turn()
		if err != nil {
			return err
		}
		defer done()
	}
	before := mark(l.ledger)
	if err := l.append(lines, last); err != nil {
		return err
	}
	return l.deliver(l.ledger.Written(), before)
}

// append appends lines to the ledger. After an error none has a number.
func (l *Log) append(lines []*line, last bool) error {
	err := l.ledger.Append(lines, l.o.Clock(), last)
	switch {
	case err != nil:
		for _, ln := range lines {
			if ln != nil {
				ln.Seq = 0
			}
		}
	case last:
		l.tip.Store(newTip(l.ledger))
	}
	return err
}

func empty(lines []*line) bool {
	for _, ln := range lines {
		if ln != nil {
			return false
		}
	}
	return true
}

// written reports whether the ledger took the lines, so that only a sink failed.
func (l *Log) written(lines []*line) bool {
	for _, ln := range lines {
		if ln != nil {
			return ln.Seq != 0
		}
	}
	return true
}

// free gives lines back that no caller waits for.
func (l *Log) free(lines []*line) {
	for _, ln := range lines {
		if ln != nil && (ln.Kind == record.KindOutcome || ln.Kind == record.KindRefusal || ln.Noted) {
			l.lines.Put(ln)
		}
	}
}
