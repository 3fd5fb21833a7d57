package outlet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	Queue     int    `json:"queue"` // lines that wait; of a required sink those that it lacks
	Lost      uint64 `json:"lost"`  // lines that the sink did not get and will not get
	LastError string `json:"error,omitempty"`
}

// Said is what is wrong with the sink, in words; "" when nothing is. Its name is not in it.
func (h Health) Said() string {
	var said []string
	if h.Lost > 0 {
		said = append(said, runtime.Count(h.Lost, "line")+" lost")
	}
	switch {
	case h.Queue > 0 && h.Required:
		said = append(said, "lacks "+runtime.Count(h.Queue, "line"))
	case h.Queue > 0 && (h.Lost > 0 || h.LastError != ""):
		said = append(said, runtime.Count(h.Queue, "line")+" still to be sent")
	}
	if h.LastError != "" {
		said = append(said, h.LastError)
	}
	return strings.Join(said, ", ")
}

const (
	outletBytes = 16 << 20 // that wait for a slow best-effort sink
	outletPause = 200 * time.Millisecond
	outletLong  = 30 * time.Second // the longest pause between tries
	sinkTimeout = 5 * time.Second  // for one write to a sink
)

// Outlet feeds one sink: a required one at once, a best-effort one through a
// queue and a goroutine of its own that tries again until the queue is full.
type Outlet struct {
	sink  Sink
	limit int // lines that may wait
	after func(time.Duration) <-chan time.Time
	lossy func() // told when lines were lost; must not block

	more chan struct{}
	stop chan struct{} // closed: one last try
	done chan struct{}

	mu     sync.Mutex
	queue  []queued // nil for a required sink
	bytes  int
	lost   uint64
	told   uint64   // of lost, what a record tells of
	tells  [][]byte // what stands in the last such records, of all outlets
	lacks  int      // lines that a required sink has missed, as its owner says
	closed bool     // nobody sends what comes now
	err    error
	cancel context.CancelFunc // of the last tries, when closing took too long
}

// queued is a line that waits, and the slot that it is of.
type queued struct {
	slot string
	line []byte
}

// Open begins to feed a sink, until [Outlet.Close]: so many lines may wait for it. What is
// told of lost lines must not block.
func Open(sink Sink, limit int, after func(time.Duration) <-chan time.Time, lossy func()) *Outlet {
	o := &Outlet{
		sink: sink, limit: limit, after: after, lossy: lossy,
		more: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if !sink.Required() {
		ctx, cancel := context.WithCancel(context.Background())
		o.cancel = cancel
		go o.drain(ctx)
	}
	return o
}

// Give hands lines of a slot on. Its error is that of a required sink, which has not got them
// then: they are to be given again, before others.
func (o *Outlet) Give(slot string, lines [][]byte) error {
	if o.sink.Required() {
		return o.send(context.Background(), slot, lines)
	}
	size := 0
	for _, line := range lines {
		size += len(line)
	}
	o.mu.Lock()
	if o.closed || len(o.queue)+len(lines) > o.limit || o.bytes+size > outletBytes {
		fresh := false
		for _, line := range lines {
			fresh = o.losing(line) || fresh
		}
		o.mu.Unlock()
		if fresh {
			o.lossy()
		}
		return nil
	}
	for _, line := range cloneLines(lines) {
		o.queue = append(o.queue, queued{slot, line})
	}
	o.bytes += size
	o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return nil
}

// Required reports whether requests wait for the sink.
func (o *Outlet) Required() bool { return o.sink.Required() }

// Lacks says how many lines a required sink has missed and is still to get.
func (o *Outlet) Lacks(lines int) {
	o.mu.Lock()
	o.lacks = lines
	o.mu.Unlock()
}

// Lose counts lines that a required sink has missed and that cannot be given any more. A
// durable record tells of them.
func (o *Outlet) Lose(lines uint64) (inAll uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost += lines
	o.told += lines
	return o.lost
}

func (o *Outlet) send(ctx context.Context, slot string, lines [][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	err := o.write(ctx, slot, lines)
	o.mu.Lock()
	o.err = err
	o.mu.Unlock()
	if err != nil {
		err = &Failure{Sink: o.sink.Name(), Err: err}
	}
	return err
}

// write gives lines to the sink. One in which they panic has refused them: it would do so
// again.
func (o *Outlet) write(ctx context.Context, slot string, lines [][]byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Refused{Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	return o.sink.Write(ctx, slot, lines)
}

// drain sends the queue in order until stop, and then what is left, once.
func (o *Outlet) drain(ctx context.Context) {
	defer close(o.done)
	pause, pace := outletPause, pace{most: paceMost, ceiling: paceMost}
	for {
		slot, batch := o.batch(pace.most)
		if len(batch) == 0 {
			select {
			case <-o.more:
				continue
			case <-o.stop:
				if o.waiting() == 0 {
					return
				}
				continue
			}
		}
		err := o.send(ctx, slot, batch)
		refused, later := (*Refused)(nil), (*Later)(nil)
		switch {
		case err == nil:
			o.take(len(batch), 0)
			pause = outletPause
			pace.took(len(batch), o.pressed())
			continue
		case errors.As(err, &refused) && refused.Fewer && len(batch) > 1:
			pace.refused(len(batch))
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
			pace.failed() // it may need its time for each line
		}
	}
}

// batch is the beginning of the queue, so many lines of one slot at most; it stays there until it was taken.
func (o *Outlet) batch(most int) (slot string, lines [][]byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range o.queue[:min(len(o.queue), most)] {
		if len(lines) > 0 && q.slot != slot {
			break
		}
		slot, lines = q.slot, append(lines, q.line)
	}
	return slot, lines
}

// pressed reports that an eighth of the room for what waits is full.
func (o *Outlet) pressed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue) > o.limit/8 || o.bytes > outletBytes/8
}

func (o *Outlet) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// take removes lines from the front, so many of them lost.
func (o *Outlet) take(n, lost int) {
	fresh := false
	o.mu.Lock()
	for i, q := range o.queue[:n] {
		o.bytes -= len(q.line)
		if i < lost {
			fresh = o.losing(q.line) || fresh
		}
	}
	if o.queue = o.queue[n:]; len(o.queue) == 0 {
		o.queue = nil
	}
	o.mu.Unlock()
	if fresh {
		o.lossy()
	}
}

// losing counts one lost line, and reports whether a record is to tell of it. One that tells of
// losses itself is none: each would bring the next, for ever.
func (o *Outlet) losing(line []byte) (fresh bool) {
	o.lost++
	if slices.ContainsFunc(o.tells, func(body []byte) bool { return bytes.Contains(line, body) }) {
		o.told++
		return false
	}
	return true
}

// Close waits for the queue, so long at most; what is left then is lost, and what is given
// afterwards.
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
		o.mu.Lock()
		o.closed = true
		o.mu.Unlock()
	}
	_ = o.sink.Close()
}

// Health is the state of the sink at this moment.
func (o *Outlet) Health() Health {
	o.mu.Lock()
	defer o.mu.Unlock()
	h := Health{Name: o.sink.Name(), Required: o.sink.Required(), Queue: len(o.queue) + o.lacks, Lost: o.lost}
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

// Tells says what stands in the next records of lost lines, this outlet's and others', before
// any outlet is given them: where two refuse everything, each would tell of the other's.
func (o *Outlet) Tells(bodies [][]byte) {
	o.mu.Lock()
	o.tells = bodies
	o.mu.Unlock()
}

// Told says that a durable record tells of so many lost lines more.
func (o *Outlet) Told(lost uint64) {
	o.mu.Lock()
	o.told += lost
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
