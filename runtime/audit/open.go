package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
)

// Open locks the slot, cuts a torn last line, marks the intents that a dead
// process left open as unknown, gives the required sinks what they have missed, and starts
// the writer. While such a sink has not got that, the log refuses and goes on trying. It is
// called once; after an error the Log is of no use.
func (l *Log) Open(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.start(); err != nil {
		return l.refusal(fmt.Errorf("open the audit trail in %s: %w", l.o.Dir, err))
	}
	if !l.o.Shared {
		l.reserve.path = reservePath(l.o.Dir, l.slot)
		_ = l.reserve.keep() // a disk that has no room for it now is noticed when it is needed
	}
	feeds := l.desk.feeds
	for _, sink := range l.o.Sinks {
		out := outlet.Open(sink, l.o.Queue, l.o.After, func() { signal(l.lossy) })
		l.sinks = append(l.sinks, out)
		if out.Required() {
			feeds[0].out, feeds = out, feeds[1:]
		}
	}
	l.mu.Lock()
	l.group = newGroup()
	l.mu.Unlock()
	l.trouble.Store(nil)
	if l.begun { // else its first turn does all this
		if err := l.first(); err != nil {
			l.refuse(err)
			signal(l.urgent) // so that the writer tries again
		}
	}
	go l.serve()
	return nil
}

// turnAtStart is how long the start of a short command waits for its turn. Without one it
// begins when it has something to write: who only reads need not wait for others, and who
// locks the vault must not.
const turnAtStart = time.Second

// start takes the slot and brings its ledger in order. It leaves the lock of a shared slot
// taken, for [Log.first].
func (l *Log) start() (err error) {
	if err = os.MkdirAll(l.o.Dir, 0o700); err != nil {
		return err
	}
	l.slot = l.o.Slot
	if l.o.Shared {
		l.lock, err = holder.Open(l.o.Dir, l.slot)
	} else {
		l.slot, l.lock, err = holder.Claim(l.o.Dir, l.o.Slot)
	}
	if err != nil {
		return err
	}
	l.ledger = ledger.New(ledger.Options{Dir: l.o.Dir, Slot: l.slot, Limit: l.o.SegmentSize, Age: l.o.SegmentAge, Shared: l.o.Shared})
	l.desk = desk{slot: l.slot, book: receipt.In(l.o.Dir, l.slot)}
	for _, sink := range l.o.Sinks {
		if sink.Required() {
			l.desk.feeds = append(l.desk.feeds, &feed{name: sink.Name(), portion: new(portion)})
		}
	}
	if l.o.Shared {
		if err = l.lock.WaitFor(turnAtStart); errors.Is(err, system.ErrTaken) {
			return nil
		}
	}
	if err == nil {
		err = l.begin()
	}
	if err == nil && !l.o.Shared {
		l.mention(l.lock.Begin()) // without it, as on a full disk, the next to take the slot sees to it
	}
	if err != nil {
		l.desk.book.Close()
		_ = l.lock.Close()
	}
	return err
}

// begin brings the ledger in order, and finds out what the required sinks have before
// anything is written. Where that cannot be read the log will refuse, and try again. The
// caller holds the lock of the slot.
func (l *Log) begin() error {
	err := l.ledger.Load()
	if err == nil {
		l.tidy(l.slot)
		l.from = mark(l.ledger)
		if err := l.arrange(); err != nil {
			l.mention(fmt.Errorf("what the required audit sinks have: %w", err))
		}
		err = l.settle()
	}
	l.tip.Store(newTip(l.ledger))
	l.begun = err == nil
	return err
}

// tidy removes what killed processes have left of a slot beside its marks. The caller holds
// its lock.
func (l *Log) tidy(slot string) {
	left, err := receipt.Unfinished(l.o.Dir)
	for _, path := range left[slot] {
		err = errors.Join(err, os.Remove(path))
	}
	l.mention(err)
}

// settle marks what a dead process left open, and keeps the lines for the best-effort sinks,
// which are not open yet.
func (l *Log) settle() error {
	before, _ := l.ledger.Tip()
	err := l.ledger.Settle(l.o.Clock())
	if after, _ := l.ledger.Tip(); after > before {
		for _, written := range l.ledger.Written() {
			l.settled = append(l.settled, bytes.Clone(written))
		}
	}
	return err
}

// first gives the sinks what came before: the best-effort ones what this start has written,
// the required ones what they have missed. Those of a shared slot get that before what is
// written next: a command that only reads need not wait for them.
func (l *Log) first() error {
	l.offer(l.slot, l.settled)
	l.settled = nil
	if !l.o.Shared {
		return l.repay()
	}
	l.desk.book.Close()
	return l.lock.Release()
}
