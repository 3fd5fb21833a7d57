package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/ledger"
	"github.com/kimbap-run/kimbap/runtime/audit/outlet"
	"github.com/kimbap-run/kimbap/runtime/audit/receipt"
	"github.com/kimbap-run/kimbap/runtime/audit/record"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Options are what a [Log] is made of. Dir, Slot, Clock and Redact are required.
type Options struct {
	Dir    string // the audit folder; made 0700 when it is not there
	Slot   string // "proxy", "run", "cli": small letters, digits and dashes
	Clock  func() time.Time
	Redact record.Redactor

	Shared    bool          // several processes write to this slot in turn
	SinksLast bool          // a record is durable once the required sinks have it, of which there is one: the disk gets it soon
	Sinks     []outlet.Sink // further places; the ledger itself is always one

	SinksElsewhere []string // names of required sinks that only other processes over this folder have
	SinksUnknown   bool     // which sinks there are could not be read: what is known of them stays as it is

	Secrets     func() []runtime.Secret              // values overwritten wherever they appear; may be nil
	OnError     func(error)                          // told when the log begins to refuse, and of what is wrong with a sink's arrears; may be nil, must not block
	OnArrears   func(Arrears)                        // told how a long sending of what a required sink has missed goes on; may be nil, must not block
	After       func(time.Duration) <-chan time.Time // time.After when nil
	Yield       func()                               // system.Yield when nil
	SegmentSize int64                                // bytes; 64 MiB when 0
	SegmentAge  time.Duration                        // after which a segment is followed by a new one; 0: never
	Kept        int                                  // outcomes kept in memory while refusing; 65536 when 0
	Queue       int                                  // lines that may wait for a best-effort sink; 8192 when 0
	Linger      time.Duration                        // for best-effort sinks to empty their queues at the end; 5 s when 0
}

// tip is the end of a chain.
type tip struct {
	seq  uint64
	hash segment.Digest
}

// newTip is where a ledger ends.
func newTip(l *ledger.Ledger) *tip {
	seq, hash := l.Tip()
	return &tip{seq, hash}
}

const (
	outcomeDelay  = 100 * time.Millisecond // the longest an outcome waits for others
	retryInterval = time.Second            // between attempts to reopen the ledger
	queuedLines   = 8192                   // that wait for a slow best-effort sink
	linger        = 5 * time.Second        // for best-effort sinks at the end
	lossInterval  = 10 * time.Second       // between two records of what a sink lost
	keptOutcomes  = 65536
)

// Log is the trail of one process. It is safe for concurrent use.
type Log struct {
	o       Options
	enc     record.Encoder
	ledger  *ledger.Ledger   // the baton's, after Open
	lock    *holder.Lock     // of the slot
	sinks   []*outlet.Outlet // the baton's
	settled [][]byte         // written by Open for the best-effort sinks, which have not got them yet
	reserve reserve
	lines   sync.Pool                     // of *line
	trouble atomic.Pointer[runtime.Error] // why the log refuses; nil: it does not

	desk      desk         // the baton's, as all of these: what the required sinks have of the slot
	begun     bool         // the ledger was read
	owing     bool         // the ledger has something that no required sink was asked to take
	hasty     bool         // others are not waited for as long as usual
	arranged  bool         // their marks are known
	from      receipt.Mark // where the ledger ended before this process wrote to it: new sinks have what is before
	swept     bool         // they have what they lacked of the slots that nobody holds
	mentioned string       // the last that was

	baton   sync.Mutex // held by who writes: it guards ledger, lock, sinks, crowded and rush
	crowded bool       // the last group was of several callers
	rush    time.Time  // until then nobody else's threads are let go first
	mu      sync.Mutex
	group   *group  // being gathered; nil: not open
	kept    []*line // outcomes to write on recovery; the baton's to add to
	lost    uint64  // outcomes that did not fit into kept

	urgent, lazy chan struct{} // tell the writer: somebody waits; an outcome came
	armed        atomic.Bool   // the writer was told of an outcome, and has not written since the delay
	lossy        chan struct{} // a sink lost lines
	quit, done   chan struct{}
	closing      sync.Once
	tip          atomic.Pointer[tip] // the last durable record; nil before Open
	slot         string
}

var _ runtime.Trail = (*Log)(nil)

// New checks the options; it does no IO.
func New(o Options) (*Log, error) {
	switch {
	case o.Dir == "":
		return nil, errors.New("audit: Options.Dir is missing")
	case !segment.ValidSlot(o.Slot):
		return nil, fmt.Errorf("audit: Options.Slot %q: want small letters, digits and dashes", o.Slot)
	case o.Clock == nil:
		return nil, errors.New("audit: Options.Clock is missing")
	case o.Redact == nil:
		return nil, errors.New("audit: Options.Redact is missing")
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Yield == nil {
		o.Yield = system.Yield
	}
	if o.Queue <= 0 {
		o.Queue = queuedLines
	}
	if o.Linger <= 0 {
		o.Linger = linger
	}
	if o.Kept <= 0 {
		o.Kept = keptOutcomes
	}
	if o.SinksLast && !slices.ContainsFunc(o.Sinks, func(s outlet.Sink) bool { return s != nil && s.Required() }) {
		return nil, errors.New("audit: Options.SinksLast without a required sink: no record would be durable")
	}
	l := &Log{o: o, urgent: make(chan struct{}, 1), lazy: make(chan struct{}, 1), lossy: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	l.enc = record.Encoder{Hash: o.Redact, Secrets: o.Secrets, Process: holder.Process()}
	l.lines.New = func() any { return &line{Body: make([]byte, 0, 1024)} }
	for _, sink := range o.Sinks {
		if sink == nil {
			return nil, errors.New("audit: Options.Sinks holds a nil sink")
		}
	}
	l.trouble.Store(l.refusal(errors.New("the audit trail is not open")))
	return l, nil
}

// Slot returns the slot this log writes to: the one asked for, or that name
// with a number when other processes hold it. It is empty before Open.
func (l *Log) Slot() string { return l.slot }

// Tip is the last durable record, 0 before [Log.Open]; alone says that nobody else writes to
// the slot, now that this log holds it.
func (l *Log) Tip() (seq uint64, hash segment.Digest, alone bool) {
	alone = !l.o.Shared && !l.ended()
	if tip := l.tip.Load(); tip != nil {
		return tip.seq, tip.hash, alone
	}
	return 0, hash, false
}

// ended reports whether the slot was given free.
func (l *Log) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// Ready implements [runtime.Trail].
func (l *Log) Ready() error {
	if e := l.trouble.Load(); e != nil {
		return e
	}
	return nil
}

// Intent implements [runtime.Trail]. It waits for the fsync of its group, and
// for the required sinks; for a record that need not last only until it is written,
// and the sync comes within outcomeDelay. A caller who goes away is let go as long as
// its record has not been handed to the disk.
func (l *Log) Intent(ctx context.Context, r *runtime.Record) error {
	ln := l.line(record.KindIntent)
	ln.Body = l.enc.Intent(ln.Body, r, ln.At)
	seq, err := l.enter(ctx, ln, r.MustLast())
	r.Sequence = seq
	return err
}

// Outcome implements [runtime.Trail]. While only a required sink fails, outcomes go to the
// ledger as ever, and to the sink with what else it has missed. While the ledger fails they
// are kept in memory, up to Options.Kept, and written when the log has recovered.
func (l *Log) Outcome(r *runtime.Record) {
	kind := record.KindOutcome
	if r.Sequence == 0 {
		kind = record.KindRefusal
	}
	ln := l.line(kind)
	ln.Intent = r.Sequence
	ln.Body = l.enc.Outcome(ln.Body, r, ln.At)
	l.lazily(ln)
}

// Note records an act that is no request, and does not wait for it. It stands
// before all that is recorded later: an intent that is durable means that it is
// too. While the log refuses it fares as outcomes do.
func (l *Log) Note(ev record.Event) {
	ln := l.line(record.KindEvent)
	ln.Noted = true
	ln.Body = record.AppendEvent(ln.Body, ev, ln.At)
	l.lazily(ln)
}

// lazily lets a line join the next group write.
func (l *Log) lazily(ln *line) {
	l.mu.Lock()
	if l.group == nil { // closed: Close has waited for the requests that count
		l.lost++
		l.mu.Unlock()
		return
	}
	l.group.lines = append(l.group.lines, ln)
	l.mu.Unlock()
	l.arm()
}

// arm lets the writer come by within outcomeDelay.
func (l *Log) arm() {
	if !l.armed.Swap(true) { // once per delay: waking the writer for each costs a busy proxy
		signal(l.lazy)
	}
}

// Event records an act that is no request. It returns when the record is
// durable.
func (l *Log) Event(ctx context.Context, ev record.Event) error {
	_, err := l.enter(ctx, l.event(ev), true)
	return err
}

func (l *Log) event(ev record.Event) *line {
	ln := l.line(record.KindEvent)
	ln.Body = record.AppendEvent(ln.Body, ev, ln.At)
	return ln
}

// Flush returns when everything handed over before is durable, and the required sinks have
// it.
func (l *Log) Flush(ctx context.Context) error {
	_, err := l.enter(ctx, nil, true)
	return err
}

// Close writes what waits, stops the writer, closes the sinks and gives the
// slot free. It waits no longer than ctx. Later calls do nothing. Its error is of records
// that the ledger lacks; what only a sink lacks the next start sends.
func (l *Log) Close(ctx context.Context) error {
	l.mu.Lock()
	open := l.group != nil
	l.mu.Unlock()
	if !open {
		return nil
	}
	l.closing.Do(func() { close(l.quit) })
	select {
	case <-l.done:
		if e := l.trouble.Load(); e != nil && !errors.Is(e.Err, errClosed) && !l.whole(e) {
			return e
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close the audit trail: %w", ctx.Err())
	}
}
