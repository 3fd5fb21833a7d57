package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// Sealer seals under a tenant's key; the vault is one. An *runtime.Error from
// it (a locked vault, a busy store) is passed on; any other error of OpenFor
// means that the bytes are not what was sealed.
type Sealer interface {
	SealFor(ctx context.Context, tenant runtime.Tenant, purpose string, plain, aad []byte) ([]byte, error)
	OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error)
}

// Options are what a [Desk] needs. The durations and the cap have defaults for
// zero; the rest is required.
type Options struct {
	Store   Store
	Sealer  Sealer
	Clock   func() time.Time
	NewID   func() string            // "apr_…", never twice
	Process func() string            // names this process as the holder of what it executes, no other one ever
	Alive   func(holder string) bool // whether the process of that name still runs

	// Tell, when not nil, tells people of a new question, and returns at once. What
	// it returns is closed when the first of them was reached. [Desk.Told] is to be called
	// when nothing more is to be sent, or another process tells after the end of this one.
	Tell func(n Notice) <-chan struct{}

	// Ended, when not nil, tells of a requester that can never come back, as a revoked
	// token cannot: a yes would be used by nobody.
	Ended func(ctx context.Context, tenant runtime.Tenant, principal string) (bool, error)

	// Mask, when not nil, makes what takes a tenant's stored credentials out of a text that
	// people are shown. It is asked before a text is cut or escaped.
	Mask func(ctx context.Context, tenant runtime.Tenant) (func(text string) string, error)

	// Placeholder, when not nil, reports whether a value stands for a stored credential, of
	// any service: a login is not the caller's own then.
	Placeholder func(value string) bool

	// Stored, when not nil, reports whether something is stored under a name of the vault: a
	// service without its key gets the caller's login. Without it, each has its key.
	Stored func(ctx context.Context, tenant runtime.Tenant, name string) (bool, error)

	// HashKey, when not nil, makes a tenant's keyed hash, by which two logins are told apart;
	// without it, their SHA-256 does.
	HashKey func(ctx context.Context, tenant runtime.Tenant) (func(value string) string, error)

	// Late, when not nil, is told of an end of an execution that could not be written,
	// with why, and with nil once it was.
	Late func(id string, err error)

	Terms
	Poll       time.Duration // how often a waiting request looks at the store, 0: 250 ms
	PendingCap int           // open questions per principal, 0: 20
	PinMemory  uint32        // what deriving a PIN's key takes, in KiB, 0: 64 MiB
}

// Terms are how long a question and the request behind it wait.
type Terms struct {
	Expires time.Duration // how long a question stays open, 0: 8 h
	Hold    time.Duration // the most that runtime.HoldAuto waits, 0: 50 s
	Always  bool          // it waits so long, 0 included, whether somebody can answer or not
}

func (t Terms) withDefaults() (*Terms, error) {
	if t.Expires < 0 || t.Hold < 0 {
		return nil, errors.New("approval: Terms has a negative duration")
	}
	t.Expires = cmp.Or(t.Expires, 8*time.Hour)
	if !t.Always {
		t.Hold = cmp.Or(t.Hold, 50*time.Second)
	}
	return &t, nil
}

// Desk is where requests wait for a person. It is safe for concurrent use; the
// desks of several processes work on one store.
type Desk struct {
	o     Options // but for its Terms
	terms atomic.Pointer[Terms]

	asking [64]sync.Mutex // by digest: one find-or-add of a request at a time, so that twins share a question

	sweeping sync.Mutex
	swept    map[runtime.Tenant]time.Time // when a full cap last made it sweep; under sweeping
	long     sync.Mutex                   // one long request at a time is put away

	mu      sync.Mutex
	latest  time.Time                 // the largest time seen, as it has gone on
	read    time.Time                 // when it went on last, by our own clock
	tickets map[string]runtime.Tenant // handed out, not finished
	decided chan struct{}             // closed and replaced at each decision
	late    lateEnds
}

var _ runtime.Approver = (*Desk)(nil)

// New checks the options.
func New(o Options) (*Desk, error) {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Store", o.Store == nil},
		{"Sealer", o.Sealer == nil},
		{"Clock", o.Clock == nil},
		{"NewID", o.NewID == nil},
		{"Process", o.Process == nil},
		{"Alive", o.Alive == nil},
	} {
		if required.missing {
			return nil, fmt.Errorf("approval: Options.%s is missing", required.name)
		}
	}
	terms, err := o.Terms.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Poll < 0 || o.PendingCap < 0 {
		return nil, errors.New("approval: Options has a negative duration or cap")
	}
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	o.PendingCap = cmp.Or(o.PendingCap, 20)
	o.PinMemory = cmp.Or(o.PinMemory, pinMemory)
	d := &Desk{o: o, read: o.Clock(), tickets: map[string]runtime.Tenant{}, decided: make(chan struct{})}
	d.terms.Store(terms)
	d.late.open, d.late.close = context.WithCancel(context.Background())
	return d, nil
}

// SetTerms changes how long questions stay open and requests wait, for those that come
// from now on.
func (d *Desk) SetTerms(t Terms) error {
	terms, err := t.withDefaults()
	if err == nil {
		d.terms.Store(terms)
	}
	return err
}

// now is the largest time seen, and goes on from there by the monotonic clock: a clock set
// back un-expires nothing, and what begins after that lasts no longer.
func (d *Desk) now() time.Time { return d.atLeast(time.Time{}) }

// wrongBy is by how much a time is ahead of this clock's that only a wrong one can have said.
// Believed, it would end all that is open, and last until it comes.
const wrongBy = 24 * time.Hour

// saw takes note of a time that another process has stored and sealed.
func (d *Desk) saw(t time.Time) {
	if !d.wrong(t) {
		d.atLeast(t)
	}
}

// wrong reports whether only a wrong clock can have said this time.
func (d *Desk) wrong(t time.Time) bool { return t.Sub(d.now()) > wrongBy }

// atLeast is now, which is not before a time.
func (d *Desk) atLeast(seen time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	at := d.o.Clock()
	if on := at.Sub(d.read); on > 0 { // monotonic where both times are
		d.latest, d.read = d.latest.Add(on), at
	}
	for _, t := range []time.Time{at, seen} {
		if t = t.Round(0); t.After(d.latest) { // a machine may have slept
			d.latest = t
		}
	}
	return d.latest
}

// changed returns a channel that closes at the next decision in this process.
func (d *Desk) changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.decided
}

// wake lets everything that waits look again at once.
func (d *Desk) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.decided)
	d.decided = make(chan struct{})
}

// pause waits until something may have changed, at most for most.
func (d *Desk) pause(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	timer := time.NewTimer(min(d.o.Poll, most))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C:
	}
	return nil
}

// past reports whether the time of an approval is over.
func (d *Desk) past(a *Approval) bool { return !d.now().Before(a.Expires) }

// expired reports whether the approval may no longer be used or decided here: its time is over, or
// it is dated far ahead. Then the clock is wrong by which it would be good until that day, or
// this one is: so who has not asked it itself leaves it as it is.
func (d *Desk) expired(a *Approval) bool { return d.past(a) || d.wrong(a.Created) }

// expire closes an open approval that is past its time.
func (d *Desk) expire(ctx context.Context, a *Approval) (bool, error) {
	return d.move(ctx, a.Tenant, a.ID, a.State, Expired, Change{At: d.now()})
}
