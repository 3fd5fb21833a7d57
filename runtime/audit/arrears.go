package audit

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// What required sinks have missed comes from the ledger, where it stands, in this process
// and in the next one alike.

// Arrears is how far a sink is with what it has missed.
type Arrears struct {
	Sink, Slot string
	Sent, Left uint64 // lines: since this began, and still to come
}

const (
	arrearsSlice = 2 * time.Second  // of sending what was missed, until others get their turn
	arrearsTold  = 10 * time.Second // between two reports of it
)

// errArrears is that a sink has not got all that it has missed, and nothing has failed.
var errArrears = errors.New("it is being given what it has missed")

// mark is where a ledger ends.
func mark(l *ledger.Ledger) receipt.Mark {
	seq, hash := l.Tip()
	return receipt.Mark{Sequence: seq, Hash: hash}
}

// slice is the time until which what was missed is sent at a stretch.
func (l *Log) slice() time.Time { return l.o.Clock().Add(arrearsSlice) }

// arrange reads the marks of our slot, whose lock we hold.
func (l *Log) arrange() error {
	if l.o.SinksUnknown {
		return nil
	}
	doubt, err := l.desk.arrange(mark(l.ledger), l.from, l.o.SinksElsewhere)
	l.arranged = err == nil
	l.mention(doubt)
	return err
}

// settleUp gives the required sinks what they have missed of our slot, whose lock we hold.
func (l *Log) settleUp(until time.Time) error {
	if !l.arranged && len(l.desk.feeds) > 0 {
		if err := l.arrange(); err != nil {
			return err
		}
	}
	tip := func() receipt.Mark { return mark(l.ledger) }
	for again := true; again; { // a loss is a record of its own, which all sinks get
		before, failed := tip(), error(nil)
		for _, f := range l.desk.feeds {
			failed = errors.Join(failed, l.catchUp(&l.desk, f, tip, until))
		}
		if failed != nil {
			return failed
		}
		again = tip() != before
	}
	l.owing = false
	return nil
}

// catchUp gives one sink what it has missed of a slot, in order. It ends early, with
// errArrears, when the time is over.
func (l *Log) catchUp(d *desk, f *feed, tip func() receipt.Mark, until time.Time) error {
	for f.mark != tip() {
		if err := l.resend(d, f, tip(), until); err != nil {
			f.lacks(tip())
			return err
		}
	}
	if f.lacks(tip()); f.told != (time.Time{}) {
		l.progress(d, f, tip())
		f.told = time.Time{}
	}
	if f.sent > 0 { // else what it takes is still to be found out, of another slot
		f.sent, *f.portion = 0, portion{}
	}
	return nil
}

func (l *Log) resend(d *desk, f *feed, tip receipt.Mark, until time.Time) error {
	r := receipt.After(l.o.Dir, d.slot, f.mark, tip)
	defer r.Close()
	for {
		r.AtMost(f.portion.lines())
		batch, doubt, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return &unreadError{d.slot, err}
		}
		if doubt != nil {
			l.mention(fmt.Errorf("audit sink %s gets the whole ledger of %s: %w", f.name, d.slot, doubt))
		}
		if batch.Lost > 0 {
			err = l.lose(d, f, &batch)
		} else {
			err = l.give(d, f, &batch)
		}
		now := l.o.Clock()
		if err != nil && len(batch.Lines) > 1 && refused(err) && now.Before(until) {
			return nil // it is read again, and goes in smaller parts
		}
		if err != nil {
			return err
		}
		l.mention(d.advance(f, batch.Last))
		f.sent += uint64(len(batch.Lines))
		if batch.Last == tip || now.Before(until) {
			continue
		}
		f.lacks(tip)
		if now.Sub(f.told) >= arrearsTold {
			f.told = now
			l.progress(d, f, tip)
		}
		return fmt.Errorf("audit sink %s: %w: %d records of %s are to come", f.name, errArrears, tip.Sequence-batch.Last.Sequence, d.slot)
	}
}

// give sends lines, as many as the sink has shown that it takes at a time.
func (l *Log) give(d *desk, f *feed, b *receipt.Batch) error {
	began := l.o.Clock()
	err := f.out.Give(d.slot, b.Lines)
	f.portion.given(len(b.Lines), l.o.Clock().Sub(began), err)
	if err != nil && len(b.Lines) == 1 {
		err = fmt.Errorf("record %d of %s: %w", b.Last.Sequence, d.slot, err)
	}
	return err
}

func (l *Log) progress(d *desk, f *feed, tip receipt.Mark) {
	if l.o.OnArrears != nil {
		l.o.OnArrears(Arrears{Sink: f.name, Slot: d.slot, Sent: f.sent, Left: tip.Sequence - f.mark.Sequence})
	}
}

// lose records in our ledger, before the mark goes past them, that records cannot be given.
func (l *Log) lose(d *desk, f *feed, b *receipt.Batch) error {
	now := l.o.Clock()
	event := record.Event{Kind: "audit.sink_lost", Fields: map[string]string{
		"sink": f.name, "slot": d.slot, "lines": strconv.FormatUint(b.Lost, 10), "cause": b.Cause.Error(),
	}}
	err := l.ledger.Append([]*line{{Kind: record.KindEvent, At: now, Body: record.AppendEvent(nil, event, now)}}, now, true)
	if err != nil {
		return err
	}
	l.tip.Store(newTip(l.ledger))
	f.out.Lose(b.Lost)
	l.mention(fmt.Errorf("audit sink %s has lost %d records: %w", f.name, b.Lost, b.Cause))
	l.offer(l.slot, l.ledger.Written())
	return nil
}

// mention tells of something that stops no request. The same is told once.
func (l *Log) mention(err error) {
	if err == nil || err.Error() == l.mentioned {
		return
	}
	if l.mentioned = err.Error(); l.o.OnError != nil {
		l.o.OnError(err)
	}
}

// deliver hands the group that was written last to all sinks; before is where the ledger
// ended without it. The error is of a required one.
func (l *Log) deliver(lines [][]byte, before receipt.Mark) error {
	l.offer(l.slot, lines)
	if len(l.desk.feeds) == 0 {
		return nil
	}
	if !l.arranged {
		return errors.New("what the audit sinks have is not known")
	}
	failed, after := error(nil), mark(l.ledger)
	for _, f := range l.desk.feeds {
		if f.mark != before || before == after {
			continue
		}
		if err := f.out.Give(l.slot, lines); err != nil {
			if len(lines) > 1 && refused(err) {
				continue // in smaller parts it may take them
			}
			f.lacks(after)
			failed = errors.Join(failed, err, l.desk.book.Sync())
			continue
		}
		l.mention(l.desk.advance(f, after))
	}
	if failed != nil {
		return failed
	}
	return l.settleUp(l.slice())
}

// offer hands lines of a slot to the best-effort sinks.
func (l *Log) offer(slot string, lines [][]byte) {
	if len(lines) == 0 {
		return
	}
	for _, s := range l.sinks {
		if !s.Required() {
			_ = s.Give(slot, lines)
		}
	}
}
