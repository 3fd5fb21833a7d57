package outlet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Sink is a further place that gets every line of the ledger, in order, after
// the ledger has it.
type Sink interface {
	// Name identifies the sink in errors and in status reports, without a secret in it.
	Name() string
	// Required reports whether a request must wait for this sink. A failed
	// write of a required sink stops all requests until it has succeeded.
	Required() bool
	// Write takes whole lines of a slot, each with its newline, and returns when
	// the sink has them. It must not keep the slices. A line may come twice after
	// an error. [Refused] and [Later] say more of an error.
	Write(ctx context.Context, slot string, lines [][]byte) error
	Close() error
}

// Health is the state of one sink.
type Health struct {
	Name      string `json:"name"`
	Required  bool   `json:"required"`
	Queue     int    `json:"queue"` // lines that wait
	Lost      uint64 `json:"lost"`  // lines that a best-effort sink did not get
	LastError string `json:"error,omitempty"`
}

const (
	outletBytes = 16 << 20 // that wait for a slow best-effort sink
	outletBatch = 512      // lines of one write to it
	outletPause = 200 * time.Millisecond
	outletLong  = 30 * time.Second // the longest pause between tries
	sinkTimeout = 5 * time.Second  // for one write to a sink
)

// Outlet feeds one sink: a required one at once, a best-effort one through a
// queue and a goroutine of its own that tries again until the queue is full.
type Outlet struct {
	sink  Sink
	slot  string
	limit int // lines that may wait
	after func(time.Duration) <-chan time.Time
	lossy func() // told when lines were lost; must not block

	unsent [][]byte // what a required sink still has to get
	more   chan struct{}
	stop   chan struct{} // closed: one last try
	done   chan struct{}

	mu     sync.Mutex
	queue  [][]byte // nil for a required sink
	bytes  int
	lost   uint64
	told   uint64 // of lost, what a record tells of
	err    error
	cancel context.CancelFunc // of the last tries, when closing took too long
}

// Open begins to feed a sink, until [Outlet.Close]: so many lines may wait for it. What is
// told of lost lines must not block.
func Open(sink Sink, slot string, limit int, after func(time.Duration) <-chan time.Time, lossy func()) *Outlet {
	o := &Outlet{
		sink: sink, slot: slot, limit: limit, after: after, lossy: lossy,
		more: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !sink.Required() {
		ctx, cancel := context.WithCancel(context.Background())
		o.cancel = cancel
		go o.drain(ctx)
	}
	return o
}

// Give hands lines on. Its error is that of a required sink.
func (o *Outlet) Give(lines [][]byte) error {
	if o.sink.Required() {
		err := o.send(context.Background(), lines)
		if err != nil {
			o.unsent = append(o.unsent, cloneLines(lines)...)
		}
		return err
	}
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	o.mu.Lock()
	if len(o.queue)+len(lines) > o.limit || o.bytes+size > outletBytes {
		o.lost += uint64(len(lines))
		o.mu.Unlock()
		o.lossy()
		return nil
	}
	o.queue = append(o.queue, cloneLines(lines)...)
	o.bytes += size
	o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return nil
}

// Retry sends what a required sink has missed.
func (o *Outlet) Retry() error {
	if len(o.unsent) == 0 {
		return nil
	}
	if err := o.send(context.Background(), o.unsent); err != nil {
		return err
	}
	o.unsent = nil
	return nil
}

func (o *Outlet) send(ctx context.Context, lines [][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	err := o.write(ctx, lines)
	if err != nil {
		err = fmt.Errorf("audit sink %s: %w", o.sink.Name(), err)
	}
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	return err
}

// write gives lines to the sink. One in which they panic has refused them: it would do so
// again.
func (o *Outlet) write(ctx context.Context, lines [][]byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Refused{Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return o.sink.Write(ctx, o.slot, lines)
}

// drain sends the queue in order until stop, and then what is left, once.
func (o *Outlet) drain(ctx context.Context) {
	defer close(o.done)
	pause := outletPause
	for {
		batch := o.batch()
		if len(batch) == 0 {
			select {
			case <-o.more:
				continue
			case <-o.stop:
				if len(o.batch()) == 0 {
					return
				}
				continue
			}
		}
		err := o.send(ctx, batch)
		refused, later := (*Refused)(nil), (*Later)(nil)
		switch {
		case err == nil:
			o.take(len(batch), 0)
			pause = outletPause
			continue
		case errors.As(err, &refused):
			n := refused.Lines
			if n <= 0 {
				n = len(batch)
			}
			o.take(len(batch), n)
			pause = outletPause
			continue
		case errors.As(err, &later) && later.After > pause:
			pause = min(later.After, outletLong)
		}
		select {
		case <-o.stop: // that was the last try
			o.take(o.waiting(), o.waiting())
			return
		case <-o.after(pause):
			pause = min(2*pause, outletLong)
		}
	}
}

// batch is the beginning of the queue; it stays there until it was taken.
func (o *Outlet) batch() [][]byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(o.queue), outletBatch)
	return o.queue[:n:n]
}

func (o *Outlet) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// take removes lines from the front, so many of them lost.
func (o *Outlet) take(n, lost int) {
	o.mu.Lock()
	for _, line := range o.queue[:n] {
		o.bytes -= len(line)
	}
	if o.queue = o.queue[n:]; len(o.queue) == 0 {
		o.queue = nil
	}
	o.lost += uint64(lost)
	o.mu.Unlock()
	if lost > 0 {
		o.lossy()
	}
}

// Close waits for the queue, so long at most; what is left then is lost.
func (o *Outlet) Close(linger time.Duration) {
	if !o.sink.Required() {
		close(o.stop)
		timer := time.NewTimer(linger)
		select {
		case <-o.done:
		case <-timer.C:
			o.cancel() // the write that hangs is given up
			select {
			case <-o.done:
			case <-time.After(linger): // a sink that does not listen
			}
		}
		timer.Stop()
		o.cancel()
	}
	_ = o.sink.Close()
}

// Health is the state of the sink at this moment.
func (o *Outlet) Health() Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := Health{Name: o.sink.Name(), Required: o.sink.Required(), Queue: len(o.queue), Lost: o.lost}
	if o.err != nil {
		h.LastError = runtime.Said(o.err)
	}
	return h
}

// Name is that of the sink.
func (o *Outlet) Name() string { return o.sink.Name() }

// Losses are the lines that the sink did not get: in all, and of those what [Outlet.Told]
// was not called for; and why the last write to it failed, if it did.
func (o *Outlet) Losses() (lost, fresh uint64, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lost, o.lost - o.told, o.err
}

// Told says that a durable record tells of so many lost lines.
func (o *Outlet) Told(lost uint64) {
	o.mu.Lock()
	o.told = lost
	o.mu.Unlock()
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
