package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/sandbox/frame"
	"github.com/kimbap-run/kimbap/runtime/sandbox/journal"
)

// Worker is one process that runs one script. Send or Offer, and Recv, may be used at
// the same time, each by one goroutine.
type Worker interface {
	Send(m *frame.ToWorker) error
	// Offer is Send where that need not wait. False: nothing was said, and Send may
	// say it.
	Offer(m *frame.ToWorker) bool
	// Recv returns the next message; an error when none will come any more.
	Recv() (*frame.ToHost, error)
	// Kill ends the process and waits until it is gone. It can be called again.
	Kill()
	// Ended says why the process is gone, after Recv failed: a limit that it went
	// over, or KindInterrupted. The error says that it never was ready, which is a
	// fault of this system and not of a script.
	Ended() (frame.Failure, error)
}

// Sealer seals under a tenant's key; the vault is one.
type Sealer interface {
	SealFor(ctx context.Context, tenant runtime.Tenant, purpose string, plain, aad []byte) ([]byte, error)
	OpenFor(ctx context.Context, tenant runtime.Tenant, purpose string, sealed, aad []byte) ([]byte, error)
}

// Invocation is one call of a tool.
type Invocation struct {
	Caller    runtime.Caller
	Execution string
	Step      int
	Ref       runtime.Ref
	Action    *runtime.Action // nil with Refusal only
	Args      runtime.Args
	Refusal   *runtime.Error // why it may not be made; it is recorded all the same
	Allow     []runtime.Glob // the script's own list; none: no further bound
	MaxAnswer int            // bytes of the JSON of the answer
}

// Answer is what came of an invocation. Neither holds a secret.
type Answer struct {
	Value    string // JSON; empty: nothing was answered
	Status   int    // of the upstream, 0: none came
	Sent     bool   // something of it may have left
	Followed bool   // the status is of another request, which the answer to it led to
	Err      *runtime.Error
	Expires  time.Time // with CodeApprovalPending: when the question does

	vain bool // its question was said not to be open, and held it back again
}

// Begun is a call of an execution that has left, or may have, by the trail.
type Begun struct {
	Step   int
	Action runtime.Ref
	Args   json.RawMessage // as the trail has them: what is secret is masked there
}

// Event is a record about a script itself.
type Event struct {
	Kind      string // exec.start, exec.pause, exec.resume, exec.end, exec.lost
	Principal *runtime.Principal
	Execution string
	Durable   bool // wait until it is
	Fields    map[string]string
}

// Limits bound each script. Zero values have the defaults that stand beside.
type Limits struct {
	Timeout  time.Duration // of running: 30 s
	Heap     int64         // bytes: 96 MiB
	Calls    int           // of tools: 500
	Argument int           // bytes of the JSON of one call's arguments, at most frame.Most: 1 MiB
	Result   int           // bytes of the JSON of an answer, and of the script's value, at most frame.Most: 1 MiB
	Logs     int           // bytes of all log messages: 256 KiB
	InFlight int           // calls at once: 16
	Traffic  int           // bytes of all arguments and answers together: 64 MiB
}

// Wait is what is waited for before it is said how a question stands.
type Wait int

// What is waited for.
const (
	Now     Wait = iota // nothing
	Closed              // that it is no longer open: it is decided, or a yes to the like of it allows the call
	Decided             // that it is decided: such a yes is not enough
)

// Options are what a [Runner] needs. Identify, Catalog, Invoke, Approval, Record,
// Begun, Lost, Start, Store, Sealer, Clock, NewID, Process and Alive are required.
type Options struct {
	// Start starts a worker.
	Start func(ctx context.Context, limits Limits) (Worker, error)
	// Identify says who a caller is.
	Identify func(ctx context.Context, caller runtime.Caller) (runtime.Principal, error)
	// Catalog returns what is installed now.
	Catalog func() Catalog
	// Invoke makes one call through the pipeline, without waiting for people.
	Invoke func(ctx context.Context, call Invocation) Answer
	// Approval says whether the question of that id is still open, as long after as wait
	// says. The error is that a person said no, or nobody said anything in time; and of one
	// that waits, that nobody knows the caller any more.
	Approval func(ctx context.Context, caller runtime.Caller, who runtime.Principal, id string, wait Wait) (open bool, err error)
	// Asks says whether a person is asked before an action, as far as policy can
	// tell without arguments; nil: not known.
	Asks func(who *runtime.Principal, action *runtime.Action) bool
	// Record writes a record that stands before all that is recorded later. When it
	// is durable only, with it all that was recorded before, does it return for one
	// that says so; of others the error is that nothing can be recorded now.
	Record func(ctx context.Context, event Event) error
	// Begun returns what the trail has of an execution's calls: those whose intent
	// is there and that are not known to have been held back for a person.
	Begun func(ctx context.Context, tenant runtime.Tenant, id string) ([]Begun, error)
	// Lost says whether the trail has that an execution has ended and its result was
	// given up.
	Lost func(ctx context.Context, tenant runtime.Tenant, id string) (bool, error)

	Store   journal.Store
	Sealer  Sealer
	Clock   func() time.Time
	NewID   func() string            // "exe_…", never twice
	Process func() string            // names this process, as approvals do
	Alive   func(holder string) bool // whether the process of that name still runs

	Limits  Limits
	Workers int           // scripts that run at once, 0: 2
	Queue   int           // more that may wait for their turn, half of them one principal's, 0: 128
	Look    time.Duration // how often a script that goes on asks how its questions stand, 0: 250 ms
	Grace   time.Duration // how long a paused script's worker is kept, 0: 60 s
	Keep    time.Duration // how long executions that ended are kept, 0: 24 h
	Held    int           // workers of paused scripts that are kept at once, 0: 8
	Stored  int64         // bytes that may be kept of all executions, see storage.go, 0: 4 GiB
	Late    int           // results that are kept in memory while the store refuses them, 0: 64
}

// check refuses options with something missing, by its name, and fills defaults.
func (o *Options) check() error {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Start", o.Start == nil}, {"Identify", o.Identify == nil}, {"Catalog", o.Catalog == nil},
		{"Invoke", o.Invoke == nil}, {"Approval", o.Approval == nil}, {"Record", o.Record == nil},
		{"Begun", o.Begun == nil}, {"Lost", o.Lost == nil}, {"Store", o.Store == nil}, {"Sealer", o.Sealer == nil},
		{"Clock", o.Clock == nil}, {"NewID", o.NewID == nil}, {"Process", o.Process == nil}, {"Alive", o.Alive == nil},
	} {
		if required.missing {
			return fmt.Errorf("sandbox: Options.%s is missing", required.name)
		}
	}
	l := &o.Limits
	l.Timeout = cmp.Or(l.Timeout, 30*time.Second)
	l.Heap = cmp.Or(l.Heap, 96<<20)
	l.Calls = cmp.Or(l.Calls, 500)
	l.Argument = cmp.Or(l.Argument, 1<<20)
	l.Result = cmp.Or(l.Result, 1<<20)
	l.Logs = cmp.Or(l.Logs, 256<<10)
	l.InFlight = cmp.Or(l.InFlight, 16)
	l.Traffic = cmp.Or(l.Traffic, 64<<20)
	if max(l.Argument, l.Result) > frame.Most {
		return fmt.Errorf("sandbox: Options.Limits.Argument and Result are %d and %d, and a frame holds %d", l.Argument, l.Result, frame.Most)
	}
	o.Workers = cmp.Or(o.Workers, 2)
	o.Queue = cmp.Or(o.Queue, 128)
	o.Look = cmp.Or(o.Look, 250*time.Millisecond)
	o.Grace = cmp.Or(o.Grace, time.Minute)
	o.Keep = cmp.Or(o.Keep, 24*time.Hour)
	o.Held = cmp.Or(o.Held, 8)
	o.Late = cmp.Or(o.Late, 64)
	if o.Stored = cmp.Or(o.Stored, 4<<30); o.Stored < 2*ownPart*int64(l.Traffic) {
		return fmt.Errorf("sandbox: Options.Stored is %d, and leaves no room for scripts of %d", o.Stored, l.Traffic)
	}
	return nil
}

// jsStack is how many calls of JavaScript may nest. What it costs to leave them all at once
// grows with the square of it.
const jsStack = 4000

func (l Limits) frame() frame.Limits {
	return frame.Limits{
		Heap: l.Heap, Stack: jsStack, Calls: l.Calls, Argument: l.Argument,
		Result: l.Result, Logs: l.Logs, InFlight: l.InFlight,
	}
}
