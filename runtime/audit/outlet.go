package audit

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Sink is a further place that gets every line of the ledger, in order, after
// the ledger has it.
type Sink interface {
	// Name identifies the sink in errors and in [Health].
	Name() string
	// Required reports whether a request must wait for this sink. A failed
	// write of a required sink stops all requests until it has succeeded.
	Required() bool
	// Write takes whole lines, each with its newline, and returns when the sink
	// has them. It must not keep the slices. A line may come twice after an
	// error.
	Write(ctx context.Context, lines [][]byte) error
	Close() error
}

// SinkHealth is the state of one sink.
type SinkHealth struct {
	Name      string
	Required  bool
	Queue     int    // groups that wait, best-effort sinks only
	Dropped   uint64 // lines that a best-effort sink did not get
	LastError string
}

// outletQueue is how many groups wait for a slow best-effort sink.
const outletQueue = 256

// outlet feeds one sink: a required one at once, a best-effort one through a
// queue and a goroutine of its own.
type outlet struct {
	sink    Sink
	queue   chan [][]byte // nil: required
	done    chan struct{}
	dropped atomic.Uint64
	unsent  [][]byte // what a required sink still has to get

	mu  sync.Mutex
	err error
}

func newOutlet(sink Sink) *outlet {
	o := &outlet{sink: sink, done: make(chan struct{})}
	if !sink.Required() {
		o.queue = make(chan [][]byte, outletQueue)
		go o.drain()
	}
	return o
}

// give hands lines on. Its error is that of a required sink.
func (o *outlet) give(lines [][]byte) error {
	if o.queue == nil {
		err := o.send(lines)
		if err != nil {
			o.unsent = append(o.unsent, cloneLines(lines)...)
		}
		return err
	}
	select {
	case o.queue <- cloneLines(lines):
	default:
		o.dropped.Add(uint64(len(lines)))
	}
	return nil
}

// retry sends what a required sink has missed.
func (o *outlet) retry() error {
	if len(o.unsent) == 0 {
		return nil
	}
	if err := o.send(o.unsent); err != nil {
		return err
	}
	o.unsent = nil
	return nil
}

func (o *outlet) send(lines [][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sinkTimeout)
	defer cancel()
	err := o.sink.Write(ctx, lines)
	if err != nil {
		err = fmt.Errorf("audit sink %s: %w", o.sink.Name(), err)
	}
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	return err
}

func (o *outlet) drain() {
	defer close(o.done)
	for lines := range o.queue {
		if o.send(lines) != nil {
			o.dropped.Add(uint64(len(lines)))
		}
	}
}

// close waits for the queue, at most as long as one write may take.
func (o *outlet) close() {
	if o.queue != nil {
		close(o.queue)
		select {
		case <-o.done:
		case <-time.After(sinkTimeout):
		}
	}
	_ = o.sink.Close()
}

func (o *outlet) health() SinkHealth {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := SinkHealth{Name: o.sink.Name(), Required: o.queue == nil, Queue: len(o.queue), Dropped: o.dropped.Load()}
	if o.err != nil {
		h.LastError = o.err.Error()
	}
	return h
}

// cloneLines copies lines into one block.
func cloneLines(lines [][]byte) [][]byte {
	block := bytes.Join(lines, nil)
	copies, start := make([][]byte, len(lines)), 0
	for i, line := range lines {
		copies[i] = block[start : start+len(line) : start+len(line)]
		start += len(line)
	}
	return copies
}

// recovered is the record of a time in which nothing could be written.
func recovered(cause error, lost uint64, now time.Time) *line {
	fields := map[string]string{"cause": cause.Error()}
	if lost > 0 {
		fields["outcomes_lost"] = strconv.FormatUint(lost, 10)
	}
	return &line{kind: KindEvent, at: now, body: appendEvent(nil, Event{Kind: "audit.recovered", Fields: fields}, now)}
}
