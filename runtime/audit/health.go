package audit

import "github.com/kimbap-run/kimbap/runtime/audit/outlet"

// Health is the state of a log, for status reports.
type Health struct {
	Slot      string
	Refusing  bool
	LastError string // why it refuses; for the operator, names paths
	Sequence  uint64 // the last durable record
	Queue     int    // records that wait for the next group
	Kept      int    // outcomes in memory until recovery
	Lost      uint64 // outcomes that did not fit into memory
	Sinks     []outlet.Health
}

// Health returns the state of the log at this moment.
func (l *Log) Health() Health {
	h := Health{Slot: l.slot}
	if tip := l.tip.Load(); tip != nil {
		h.Sequence = tip.seq
	}
	if e := l.trouble.Load(); e != nil {
		h.Refusing, h.LastError = true, e.Err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.group != nil {
		h.Queue = len(l.group.lines)
		for _, s := range l.sinks {
			h.Sinks = append(h.Sinks, s.Health())
		}
	}
	h.Kept, h.Lost = len(l.kept), l.lost
	return h
}
