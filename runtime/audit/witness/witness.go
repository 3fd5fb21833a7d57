package witness

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime/audit/checkpoint"
	"github.com/kimbap-run/kimbap/runtime/audit/holder"
	"github.com/kimbap-run/kimbap/runtime/audit/segment"
)

// Anchor is a place outside the home that keeps checkpoints.
type Anchor interface {
	// Name identifies the place in errors, without a secret in it.
	Name() string
	// Export hands over one checkpoint, a line of JSON without its newline, and
	// returns when the place has it.
	Export(ctx context.Context, line []byte) error
}

// Log is the log of this process, as far as a witness asks it.
type Log interface {
	// Slot is the slot it writes to.
	Slot() string
	// Tip is its last durable record, 0 when there is none yet; alone says that nobody
	// else writes to its slot, so that there is nothing behind it.
	Tip() (seq uint64, hash segment.Digest, alone bool)
}

// Options are what a [Witness] is made of. Dir, Key and Clock are
// required.
type Options struct {
	Dir     string                             // the audit folder
	Key     func() (ed25519.PrivateKey, error) // asked before each checkpoint; an error: none now
	Clock   func() time.Time
	Own     Log           // the log of this process; may be nil
	Anchors []Anchor      // where checkpoints go; may be empty
	Every   time.Duration // between exports; a minute when 0
	Keep    time.Duration // how long records are kept; 0: for ever
	// Forget is told which records were removed, for an index; may be nil.
	Forget func(ctx context.Context, slot string, upTo uint64) error
	// Old is told after that before which time what is kept beside records is too old as
	// well; may be nil.
	Old func(ctx context.Context, before time.Time) error

	After   func(time.Duration) <-chan time.Time // time.After when nil
	OnError func(error)                          // told of a new kind of failure; may be nil
}

// What [Witness.Sign] may fail at: ErrUnsent is a checkpoint that did not arrive at an anchor,
// ErrUnsound a slot that could not be signed as it is.
var (
	ErrUnsent  = errors.New("send a checkpoint")
	ErrUnsound = errors.New("checkpoint of the audit trail")
)

const (
	witnessTick  = time.Second      // between looks at our own log
	witnessPause = 10 * time.Second // the longest that a record waits for a checkpoint
	witnessBatch = 1000             // records that make one due before
	exportEvery  = time.Minute
	exportLimit  = 30 * time.Second // for one export
	pruneEvery   = time.Hour
)

// Witness signs checkpoints over all writers of an audit folder, and sends them
// out. Several processes may each have one: they take turns. It is safe for
// concurrent use.
type Witness struct {
	o    Options
	book checkpoint.Book

	work  sync.Mutex // held while one is made or sent
	heads heads
	sent  map[string]uint64 // number of the newest checkpoint each anchor has
	tried time.Time         // of the last export
	prune time.Time         // of the last look at what may go

	// A process that died, or a store that did not answer, may have left undone what
	// follows the removal of records: each process does it once.
	forgot map[string]uint64 // of each slot, up to where the index forgot
	told   bool              // what is old

	mu   sync.Mutex
	said string // the last error that was told

	life       context.Context //nolint:containedctx // of what Start began
	stop       context.CancelFunc
	done       chan struct{}
	start, end sync.Once
}

// New checks the options; it does no IO.
func New(o Options) (*Witness, error) {
	switch {
	case o.Dir == "":
		return nil, errors.New("audit witness: Options.Dir is missing")
	case o.Key == nil:
		return nil, errors.New("audit witness: Options.Key is missing")
	case o.Clock == nil:
		return nil, errors.New("audit witness: Options.Clock is missing")
	case slices.Contains(o.Anchors, nil):
		return nil, errors.New("audit witness: Options.Anchors holds a nil anchor")
	}
	if o.After == nil {
		o.After = time.After
	}
	if o.Every <= 0 {
		o.Every = exportEvery
	}
	w := &Witness{
		o: o, book: checkpoint.In(o.Dir), sent: map[string]uint64{}, forgot: map[string]uint64{},
		heads: heads{dir: o.Dir, own: o.Own, seen: map[string]seenHead{}}, done: make(chan struct{}),
	}
	w.life, w.stop = context.WithCancel(context.Background())
	return w, nil
}

// Start signs one checkpoint and goes on signing until [Witness.Close]: when a
// thousand records have come, and else ten seconds after one.
func (w *Witness) Start() {
	w.start.Do(func() { go w.run() })
}

func (w *Witness) run() {
	defer close(w.done)
	var signed uint64
	next := w.o.Clock()
	for {
		now, seq := w.o.Clock(), w.sequence()
		if !now.Before(next) || seq >= signed+witnessBatch || signed == 0 && seq > 0 {
			_, err := w.Sign(w.life, false)
			if w.life.Err() == nil { // else Close has cut it off, and does it itself
				w.tell(err)
			}
			signed, next = seq, now.Add(witnessPause)
		}
		select {
		case <-w.life.Done():
			return
		case <-w.o.After(witnessTick):
		}
	}
}

// sequence is that of our own log.
func (w *Witness) sequence() uint64 {
	if w.o.Own == nil {
		return 0
	}
	seq, _, _ := w.o.Own.Tip()
	return seq
}

// Close stops what [Witness.Start] began, and signs and sends a last checkpoint: an
// anchor that hangs is given up, and keeps none from being signed. The log is closed
// before. Later calls do nothing.
func (w *Witness) Close(ctx context.Context) (err error) {
	w.end.Do(func() {
		w.stop()
		w.start.Do(func() { close(w.done) }) // it never began
		select {
		case <-w.done:
		case <-ctx.Done():
			err = fmt.Errorf("close the witness of the audit trail: %w", ctx.Err())
			return
		}
		_, err = w.Sign(ctx, true)
		w.tell(err)
	})
	return err
}

// Sign makes a checkpoint if there is something new, and returns the newest; its
// Number is 0 when there has been no record yet. With now it is sent to the
// anchors at once, else when Every has passed. What is wrong with a slot is in the error
// ([ErrUnsound]) beside the checkpoint, which is sent all the same, and so are a failure to
// send it ([ErrUnsent]) and one to give up what is old.
func (w *Witness) Sign(ctx context.Context, now bool) (checkpoint.Signed, error) {
	w.work.Lock()
	defer w.work.Unlock()
	signed, bad, err := w.sign()
	failed := errors.Join(err, bad.problem(signed.Number))
	if failed != nil {
		failed = fmt.Errorf("%w: %w", ErrUnsound, failed)
	}
	if err != nil {
		return signed, failed
	}
	// What it has begun it brings to its end: of what is removed nobody would be told later.
	if err := w.giveUp(context.WithoutCancel(ctx), now, &bad); err != nil {
		failed = errors.Join(failed, fmt.Errorf("retention of the audit trail: %w", err))
	}
	if signed.Number > 0 && (now || w.o.Clock().Sub(w.tried) >= w.o.Every) {
		w.tried = w.o.Clock()
		failed = errors.Join(failed, w.export(ctx, signed))
	}
	return signed, failed
}

// sign adds to the book what is new, under its lock.
func (w *Witness) sign() (last checkpoint.Signed, bad unsound, err error) {
	lock, err := holder.Open(w.o.Dir, "checkpoint")
	if err != nil {
		return last, bad, err
	}
	defer func() { _ = lock.Close() }()
	if err := lock.Wait(); err != nil {
		return last, bad, err
	}
	if last, _, err = w.book.Last(); err != nil {
		return last, bad, err
	}
	all, bad, err := w.heads.all(&last.Checkpoint)
	if err != nil || slices.EqualFunc(all, last.Heads, sameHead) {
		return last, bad, err
	}
	key, err := w.o.Key()
	if err != nil {
		return last, bad, err
	}
	last, err = w.book.Add(checkpoint.Checkpoint{Time: w.o.Clock(), Heads: all}, key)
	return last, bad, err
}

func sameHead(a, b checkpoint.Head) bool {
	return a.Slot == b.Slot && a.Sequence == b.Sequence && a.Hash == b.Hash &&
		(a.Cut == nil) == (b.Cut == nil) && (a.Cut == nil || *a.Cut == *b.Cut)
}

// export sends a checkpoint to every anchor that has not got it yet.
func (w *Witness) export(ctx context.Context, one checkpoint.Signed) (failed error) {
	for _, place := range w.o.Anchors {
		if w.sent[place.Name()] == one.Number {
			continue
		}
		sending, cancel := context.WithTimeout(ctx, exportLimit)
		err := place.Export(sending, one.Line)
		cancel()
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%w to %s: %w", ErrUnsent, place.Name(), err))
			continue
		}
		w.sent[place.Name()] = one.Number
	}
	return failed
}

// tell reports an error when it is another than the last, and remembers it.
func (w *Witness) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	w.mu.Lock()
	changed := text != w.said
	w.said = text
	w.mu.Unlock()
	if changed && err != nil && w.o.OnError != nil {
		w.o.OnError(err)
	}
}

// Problem is why the last checkpoint was not made or sent, "" when it was.
func (w *Witness) Problem() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}
