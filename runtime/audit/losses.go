package audit

import (
	"bytes"
	"strconv"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/record"
)

// What the trail says of its own gaps: lines that a sink lost, and a time in which
// nothing could be written.

// losses are records of what sinks lost since the last such record. told must be
// called when they are durable.
func (l *Log) losses() (lines []*line, told func()) {
	now := l.o.Clock()
	var done []func()
	var bodies [][]byte
	for _, o := range l.sinks {
		lost, fresh, cause := o.Losses()
		if fresh == 0 {
			continue
		}
		fields := map[string]string{"sink": o.Name(), "lines": strconv.FormatUint(fresh, 10), "in_all": strconv.FormatUint(lost, 10)}
		if cause != nil {
			fields["cause"] = cause.Error()
		}
		body := record.AppendEvent(nil, record.Event{Kind: "audit.sink_lost", Fields: fields}, now)
		bodies = append(bodies, bytes.Clone(body))
		lines = append(lines, &line{Kind: record.KindEvent, At: now, Body: body})
		done = append(done, func() { o.Told(fresh) })
	}
	if len(bodies) > 0 {
		for _, o := range l.sinks {
			o.Tells(bodies)
		}
	}
	return lines, func() {
		for _, f := range done {
			f()
		}
	}
}

// tellLosses writes them while the log is open.
func (l *Log) tellLosses() {
	lines, told := l.losses()
	if len(lines) == 0 || l.trouble.Load() != nil {
		return
	}
	if err := l.put(lines, true); err != nil {
		l.refuse(err)
		return
	}
	told()
}

// lastLosses records what the sinks lost to the end, in the ledger alone.
func (l *Log) lastLosses() {
	lines, _ := l.losses()
	l.sinks, l.desk.feeds = nil, nil // what is written from here on the required ones get at the next start
	if e := l.trouble.Load(); len(lines) > 0 && (e == nil || sunk(e)) {
		_ = l.put(lines, true)
	}
}

// recovered is the record of a time in which nothing could be written.
func recovered(cause error, lost uint64, now time.Time) *line {
	fields := map[string]string{"cause": cause.Error()}
	if lost > 0 {
		fields["outcomes_lost"] = strconv.FormatUint(lost, 10)
	}
	return &line{Kind: record.KindEvent, At: now, Body: record.AppendEvent(nil, record.Event{Kind: "audit.recovered", Fields: fields}, now)}
}
