package audit

import (
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
)

// feed is a required sink and how far it has the chain of a slot.
type feed struct {
	name  string
	out   *outlet.Outlet
	mark  receipt.Mark
	known bool // the mark is
	sent  uint64
	told  time.Time // when it was last told how far it is; zero: it was not

	portion *portion // of what it has missed, in all slots
}

// lacks tells what the sink has not got up to a record.
func (f *feed) lacks(tip receipt.Mark) {
	n := uint64(0)
	if tip.Sequence > f.mark.Sequence {
		n = tip.Sequence - f.mark.Sequence
	}
	f.out.Lacks(int(n))
}

// desk is the required sinks of one slot and the book of their marks. Who holds the lock of
// the slot uses it.
type desk struct {
	slot  string
	book  *receipt.Book
	feeds []*feed
}

// arrange reads the marks and makes the book have those that it should: of the sinks that
// there are, and of those that other processes have. A sink without one is new and has what
// stands before from. Sinks of one name share a mark, which is that of the last among them.
// Doubt says that marks were damaged, and sinks get all there is.
func (d *desk) arrange(tip, from receipt.Mark, elsewhere []string) (doubt, err error) {
	if err := d.book.Load(); err != nil {
		return nil, err
	}
	changed := d.book.Damaged()
	if changed {
		doubt = fmt.Errorf("%s is damaged: required audit sinks get again what the ledger of %s has", d.book.Path(), d.slot)
	}
	var entries []receipt.Entry
	named := map[string]bool{}
	for _, f := range d.feeds {
		m, found := d.book.Mark(f.name)
		switch {
		case found && m.Sequence > tip.Sequence: // after a power cut, where the sinks make records durable
			m, changed = tip, true
		case found:
		case f.known:
			m, changed = f.mark, true
		case d.book.Damaged():
			m = receipt.Beginning(d.slot)
		default:
			m, changed = from, true
		}
		f.mark, f.known = m, true
		if !named[f.name] {
			entries = append(entries, receipt.Entry{Sink: f.name, Mark: m})
		}
		named[f.name] = true
	}
	for _, name := range elsewhere {
		m, found := d.book.Mark(name)
		if !found && d.book.Damaged() {
			m, found = receipt.Beginning(d.slot), true
		}
		if found && m.Sequence > tip.Sequence {
			m, changed = tip, true
		}
		if found && !named[name] {
			entries = append(entries, receipt.Entry{Sink: name, Mark: m})
			named[name] = true
		}
	}
	if changed || len(entries) != len(d.book.Entries()) {
		err = d.book.Replace(entries)
	}
	return doubt, err
}

// advance notes that a sink has all up to a record.
func (d *desk) advance(f *feed, m receipt.Mark) error {
	f.mark = m
	for _, other := range d.feeds {
		if other.name == f.name && other.mark.Sequence < m.Sequence {
			m = other.mark
		}
	}
	return d.book.Put(f.name, m)
}
