package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/approval"
)

// Options are what a [Post] needs. Senders, Clock and NewID are required; the
// rest has defaults for zero, and the functions may be nil.
type Options struct {
	Senders []Sender
	Clock   func() time.Time
	NewID   func() string // of a message, never twice; senders call it at the same time
	Link    string        // a URL that shows a question, with {id} in it

	Queue   int           // questions that wait for one sender, 0: 1000
	Tries   int           // of one message, 0: 5
	Backoff time.Duration // before the second try, twice as long before each further one, 0: 1 s
	Longest time.Duration // between two tries, 0: 1 min
	Timeout time.Duration // of one try, 0: 10 s
	Gap     time.Duration // after a message, while more gather, 0: 2 s

	Reached func(ctx context.Context, tenant runtime.Tenant, sender string) // somebody was told
	// Done is told of questions that every sender has sent or given up, of each once, and if
	// one has sent it. What the end of the post cut off is not done.
	Done    func(ctx context.Context, tenant runtime.Tenant, ids []string)
	Changed func(status Status) // after each message that was sent or given up
}

// Status is how one sender fares.
type Status struct {
	Sender  string    `json:"sender"`
	Sent    int       `json:"sent"`
	Failed  int       `json:"failed"`  // messages given up
	Dropped int       `json:"dropped"` // questions that found the queue full
	Problem string    `json:"problem,omitempty"`
	Missed  string    `json:"missed,omitempty"` // who did not get the last message, which was sent
	Last    time.Time `json:"last,omitzero"`    // when the last message was sent or given up
}

// Post gives questions to all senders. It is safe for concurrent use.
type Post struct {
	o       Options
	clerks  []*clerk
	ctx     context.Context // ends when Close gives up waiting
	cancel  context.CancelFunc
	closing chan struct{}
	once    sync.Once
	done    sync.WaitGroup
}

// clerk serves one sender.
type clerk struct {
	p      *Post
	sender Sender

	mu      sync.Mutex
	waiting []*told
	running bool
	closed  bool // nothing is added any more
	status  Status
}

// told is a question on its way to all senders.
type told struct {
	notice  approval.Notice
	reached func()       // somebody was
	left    atomic.Int32 // senders that have not done with it
	sent    atomic.Bool  // by one of them
}

// over notes that a sender has done with it, and reports whether that was the last one and
// somebody was told.
func (t *told) over(sent bool) bool {
	if sent {
		t.sent.Store(true)
	}
	return t.left.Add(-1) == 0 && t.sent.Load()
}

// New checks the options. Nothing runs until there is something to tell.
func New(o Options) (*Post, error) {
	if len(o.Senders) == 0 || o.Clock == nil || o.NewID == nil {
		return nil, errors.New("notify: Options.Senders, Clock and NewID are required")
	}
	if o.Queue < 0 || o.Tries < 0 || o.Backoff < 0 || o.Longest < 0 || o.Timeout < 0 || o.Gap < 0 {
		return nil, errors.New("notify: Options has a negative number")
	}
	o.Queue = cmp.Or(o.Queue, 1000)
	o.Tries = cmp.Or(o.Tries, 5)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.Longest = cmp.Or(o.Longest, time.Minute)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Gap = cmp.Or(o.Gap, 2*time.Second)
	p := &Post{o: o, closing: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for _, s := range o.Senders {
		p.clerks = append(p.clerks, &clerk{p: p, sender: s, status: Status{Sender: s.Name()}})
	}
	return p, nil
}

// Tell queues a question for every sender and returns at once. What it returns
// is closed when the first of them has taken it.
func (p *Post) Tell(n approval.Notice) <-chan struct{} {
	reached := make(chan struct{})
	t := &told{notice: n, reached: sync.OnceFunc(func() { close(reached) })}
	t.left.Store(int32(len(p.clerks))) //nolint:gosec // there are a few
	for _, c := range p.clerks {
		c.add(t)
	}
	return reached
}

// Status returns how each sender fares.
func (p *Post) Status() []Status {
	out := make([]Status, 0, len(p.clerks))
	for _, c := range p.clerks {
		c.mu.Lock()
		out = append(out, c.status)
		c.mu.Unlock()
	}
	return out
}

// Close sends what waits, with one try each, until ctx ends. It is idempotent.
func (p *Post) Close(ctx context.Context) error {
	p.once.Do(func() { close(p.closing) })
	for _, c := range p.clerks {
		c.close()
	}
	stop := context.AfterFunc(ctx, p.cancel)
	defer stop()
	p.done.Wait()
	p.cancel()
	return nil
}

// add queues for one sender, and starts its work when it has none.
func (c *clerk) add(t *told) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if len(c.waiting) >= c.p.o.Queue {
		c.status.Dropped++
		return
	}
	c.waiting = append(c.waiting, t)
	if !c.running {
		c.running = true
		c.p.done.Go(c.work)
	}
}

// close ends the adding; what is being added has been when it returns.
func (c *clerk) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// take empties the queue; with nothing in it the work is over.
func (c *clerk) take() []*told {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.waiting
	c.waiting = nil
	c.running = len(batch) > 0
	return batch
}

// work sends until nothing waits.
func (c *clerk) work() {
	for {
		batch := c.take()
		if len(batch) == 0 {
			return
		}
		for tenant, some := range byTenant(batch) {
			c.deliver(tenant, some)
		}
		c.pause(c.p.o.Gap)
	}
}

// byTenant keeps what belongs to one tenant out of the messages of another.
func byTenant(batch []*told) map[runtime.Tenant][]*told {
	out := map[runtime.Tenant][]*told{}
	for _, t := range batch {
		out[t.notice.Tenant] = append(out[t.notice.Tenant], t)
	}
	return out
}

// deliver sends one message, with as many tries as there are.
func (c *clerk) deliver(tenant runtime.Tenant, batch []*told) {
	o := &c.p.o
	notices := make([]approval.Notice, len(batch))
	for i, t := range batch {
		notices[i] = t.notice
	}
	m := compose(o.NewID(), o.Link, notices)
	var err error
	for try := range o.Tries {
		if err = c.try(m); given(err) || final(err) || try+1 == o.Tries || !c.pause(c.wait(try, err)) {
			break
		}
	}
	now := c.note(err) // first: who is told that somebody was reached finds it so
	if given(err) {
		err = nil
		if o.Reached != nil {
			o.Reached(c.p.ctx, tenant, c.sender.Name())
		}
		for _, t := range batch {
			t.reached()
		}
	}
	c.over(tenant, batch, err)
	if o.Changed != nil {
		o.Changed(now)
	}
}

// over says of which questions this sender was the last. A message that failed at the end of
// the post did not have its tries.
func (c *clerk) over(tenant runtime.Tenant, batch []*told, err error) {
	if err != nil && c.p.ends() {
		return
	}
	var ids []string
	for _, t := range batch {
		if t.over(err == nil) {
			ids = append(ids, t.notice.ID)
		}
	}
	if c.p.o.Done != nil && len(ids) > 0 {
		c.p.o.Done(c.p.ctx, tenant, ids)
	}
}

// ends reports whether the post is being closed.
func (p *Post) ends() bool {
	select {
	case <-p.closing:
		return true
	default:
		return false
	}
}

// final reports an error that no further try mends.
func final(err error) bool {
	var refused *Refused
	return errors.As(err, &refused)
}

// given reports whether a message was sent, be it to some alone.
func given(err error) bool {
	var partly *Partly
	return err == nil || errors.As(err, &partly)
}

// try sends once. A sender that panics has failed.
func (c *clerk) try(m Message) (err error) {
	ctx, cancel := context.WithTimeout(c.p.ctx, c.p.o.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = &Refused{fmt.Errorf("the sender failed: %v", p)}
		}
	}()
	if err = c.sender.Send(ctx, m); !given(err) && c.p.ctx.Err() != nil {
		return &Refused{ErrClosed}
	}
	return err
}

// wait is how long to wait after a try: what the other side says, else the
// backoff with up to half of it at random, so that many do not come back at once.
func (c *clerk) wait(try int, err error) time.Duration {
	var later *Later
	if errors.As(err, &later) && later.After > 0 {
		return min(later.After, c.p.o.Longest)
	}
	d := min(c.p.o.Backoff<<min(try, 20), c.p.o.Longest)
	return d/2 + rand.N(d/2+1)
}

// pause waits; false when the post is closing: then nothing is tried again.
func (c *clerk) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.p.closing:
		return false
	}
}

// note keeps how a message ended, and returns how the sender fares now.
func (c *clerk) note(err error) Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status.Last, c.status.Problem, c.status.Missed = c.p.o.Clock().UTC(), "", ""
	switch {
	case err == nil:
		c.status.Sent++
	case given(err):
		c.status.Sent++
		c.status.Missed = runtime.Said(err)
	default:
		c.status.Failed++
		c.status.Problem = runtime.Said(err)
	}
	return c.status
}
