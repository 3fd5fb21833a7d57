package worker

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// refillAfter is how long a worker that was taken is left alone before its
// successor is started, unless it ends sooner: the start takes the processor from
// the script.
const refillAfter = 50 * time.Millisecond

// ErrClosed says that a pool gives out no more workers.
var ErrClosed = errors.New("the pool of script workers is closed")

// PoolOptions say what a pool keeps.
type PoolOptions struct {
	Options
	Size int           // workers to keep ready, at least one
	Idle time.Duration // without a script for this long, they are dropped; 0: never
}

// Pool keeps a few workers started, so that a script need not wait for one. They
// hold nothing of any script: each runs one, and then a new one takes its place.
type Pool struct {
	options PoolOptions
	closing chan struct{}
	busy    sync.WaitGroup // goroutines that start a worker, wait to, or end some

	mu       sync.Mutex
	warm     []*Process
	starting int
	idle     *time.Timer
	closed   bool
}

// NewPool makes an empty pool; it must be closed. The first script, or Warm, fills it.
func NewPool(o PoolOptions) (*Pool, error) {
	if o.Executable == "" {
		return nil, errors.New("no executable for script workers")
	}
	if o.Size < 1 {
		return nil, errors.New("a pool of script workers keeps at least one")
	}
	return &Pool{options: o, closing: make(chan struct{})}, nil
}

// Warm starts what is missing, without waiting for it.
func (p *Pool) Warm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rest()
	for !p.closed && len(p.warm)+p.starting < p.options.Size {
		p.starting++
		p.busy.Go(p.start)
	}
}

// start adds one worker. One that does not start is not tried again before the next
// script: that one will get the error.
func (p *Pool) start() {
	w, err := Start(p.options.Options)
	if err == nil {
		err = w.Ready()
	}
	p.mu.Lock()
	p.starting--
	keep := err == nil && !p.closed
	if keep {
		p.warm = append(p.warm, w)
	}
	if p.starting == 0 {
		p.rest()
	}
	p.mu.Unlock()
	if !keep && w != nil {
		w.Kill()
	}
}

// Take gives out a worker for one script, a new one if none is ready. It is the
// caller's to kill.
func (p *Pool) Take() (*Process, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	w := p.pop()
	p.mu.Unlock()
	if w == nil {
		var err error
		if w, err = Start(p.options.Options); err != nil {
			return nil, err
		}
	}
	p.refill(w)
	return w, nil
}

// pop takes a ready worker, and gives up those that something has ended meanwhile.
func (p *Pool) pop() *Process {
	for len(p.warm) > 0 {
		w := p.warm[0]
		p.warm = slices.Delete(p.warm, 0, 1)
		select {
		case <-w.Gone():
			w.Kill()
		default:
			return w
		}
	}
	return nil
}

// refill fills the pool when a worker has done its work, or has had its start.
func (p *Pool) refill(w *Process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.busy.Go(func() {
		later := time.NewTimer(refillAfter)
		defer later.Stop()
		select {
		case <-w.Gone():
		case <-later.C:
		case <-p.closing:
			return
		}
		p.Warm()
	})
}

// rest sets the time of the drop anew. While a worker is being started nothing is dropped:
// that one would come too late for it, and stay. Its start sets the time again.
func (p *Pool) rest() {
	if p.idle != nil {
		p.idle.Stop()
	}
	if p.options.Idle > 0 && !p.closed {
		p.idle = time.AfterFunc(p.options.Idle, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.closed && p.starting == 0 {
				p.busy.Go(p.drop)
			}
		})
	}
}

// drop ends the workers that wait; the next script fills the pool again.
func (p *Pool) drop() {
	p.mu.Lock()
	warm := p.warm
	p.warm = nil
	p.mu.Unlock()
	for _, w := range warm {
		w.Kill()
	}
}

// Close ends the workers that wait and gives out no more. Those that were taken
// belong to who took them.
func (p *Pool) Close() {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.rest()
	p.mu.Unlock()
	if first {
		close(p.closing)
	}
	p.busy.Wait()
	p.drop()
}
