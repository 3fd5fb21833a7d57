package audit

import (
	"os"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// What is left of other processes: nobody may take their slot again for weeks, and who reads
// the trail is not to wait for that.

// sweep marks what dead processes left open in the slots that nobody writes to any more, and
// gives the required sinks what they lack of these. The error is of a sink, or of a slot that
// has something for one and cannot be read: it must not be taken to have that. Where there are
// no sinks it is told of.
func (l *Log) sweep(until time.Time) error {
	if l.o.Shared || l.swept || l.o.SinksUnknown {
		return nil
	}
	names, err := segment.Slots(l.o.Dir)
	if err != nil {
		return err
	}
	left, err := receipt.Unfinished(l.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == l.slot {
			continue
		}
		_, err := os.Stat(receipt.In(l.o.Dir, name).Path())
		given := err == nil || left[name] != nil // else no required sink has ever got anything of it
		switch err := l.sweepOne(name, given, until); {
		case err == nil || noTurn(err): // whose writer sees to it
		case given && len(l.desk.feeds) > 0:
			return err
		default:
			l.mention(err)
		}
	}
	l.swept = true
	return nil
}

// sweepOne does it for one slot, unless somebody has its lock. What the sinks have is settled
// before anything is written: after a power cut that may be more than the ledger.
func (l *Log) sweepOne(slot string, given bool, until time.Time) error {
	lock, err := holder.Open(l.o.Dir, slot)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := lock.Try(); err != nil {
		return err
	}
	d := desk{slot: slot, book: receipt.In(l.o.Dir, slot)}
	defer d.book.Close()
	if given {
		l.tidy(slot)
		if err := d.book.Load(); err != nil {
			return &unreadError{slot, err}
		}
		given = len(d.book.Entries()) > 0 || d.book.Damaged()
	}
	died := lock.Died()
	if !died && !given {
		return nil
	}
	for _, f := range l.desk.feeds { // a sink that has no mark there never got anything of it
		if _, known := d.book.Mark(f.name); given && (known || d.book.Damaged()) {
			d.feeds = append(d.feeds, &feed{name: f.name, out: f.out, portion: f.portion})
		}
	}
	other := ledger.New(ledger.Options{Dir: l.o.Dir, Slot: slot})
	if err := other.Load(); err != nil {
		if len(d.feeds) == 0 { // they lack nothing of it
			l.mention(err)
			return nil
		}
		return &unreadError{slot, err}
	}
	defer other.Close()
	tip := mark(other)
	if given {
		doubt, err := d.arrange(tip, tip, l.o.SinksElsewhere)
		l.mention(doubt)
		if err != nil {
			return err
		}
	}
	if died {
		l.bury(slot, lock, other)
	}
	return l.giveRest(&d, mark(other), until)
}

// bury marks what a dead process left open. The caller holds the lock of its slot. A shared
// slot has no such: who lives may have left the lock to others for a moment.
func (l *Log) bury(slot string, lock *holder.Lock, dead *ledger.Ledger) {
	before := mark(dead)
	if err := dead.Settle(l.o.Clock()); err != nil {
		l.mention(err) // the next start tries again
		return
	}
	if mark(dead) != before {
		l.offer(slot, dead.Written())
	}
	l.mention(lock.End())
}

// giveRest gives the required sinks what they lack of a slot up to its end, whose lock we hold.
func (l *Log) giveRest(d *desk, tip receipt.Mark, until time.Time) error {
	for _, f := range d.feeds {
		if err := l.catchUp(d, f, func() receipt.Mark { return tip }, until); err != nil {
			return err
		}
	}
	return nil
}
