// Package frame is what a script's worker process and kimbap say to each other:
// the messages, and how they are cut into frames on a pipe.
//
// Only text crosses: arguments and results are JSON that one side has written and
// the other parses. A frame is a length of four bytes, big-endian, and that many
// bytes of JSON, at most [Max]. What is longer, is no JSON, or has a field that
// nobody knows ends the conversation: the peer of a host is code that runs what a
// stranger wrote.
//
// The order of a conversation: the worker says Ready; the host says Check, the
// worker answers Checked; the host says Run; then the worker says Call, Log and
// Idle as they come, and Done at the end, while the host says Reply. One script,
// one conversation.
//
// Start reading at [ToWorker] and [ToHost], then [Read].
package frame

// Max is the length of the longest frame, in bytes.
const Max = 4 << 20

// Most is the JSON that one field of a message can always hold, in bytes: a quotation mark in
// it is two in the frame.
const Most = (Max - 64<<10) / 2

// ToWorker is one message of the host. Exactly one field is set.
type ToWorker struct {
	Check *Check `json:"check,omitempty"`
	Run   *Run   `json:"run,omitempty"`
	Reply *Reply `json:"reply,omitempty"`
}

// ToHost is one message of the worker. Exactly one field is set, but a Call may bring
// the Idle that follows it: a script that waits for each of its calls says both.
type ToHost struct {
	Ready   *Ready   `json:"ready,omitempty"`
	Checked *Checked `json:"checked,omitempty"`
	Call    *Call    `json:"call,omitempty"`
	Log     *Log     `json:"log,omitempty"`
	Idle    *Idle    `json:"idle,omitempty"`
	Done    *Done    `json:"done,omitempty"`
}

// Ready is a worker's first word: what it gave up, before it read anything.
type Ready struct {
	Level Level  `json:"level,omitempty"`
	Error string `json:"error,omitempty"` // why it could not give it up; it has ended
}

// Level is what holds a script beside the engine that runs it.
type Level string

// The levels, the stronger one first.
const (
	// LevelSeccomp: the kernel ends the worker at the first system call that is
	// not on a short list. No file can be opened, no address reached, no program
	// started, no process signalled.
	LevelSeccomp Level = "seccomp"
	// LevelProcess: a process of its own with nothing of its parent's, watched and
	// ended from outside. This system offers, or we know, nothing more.
	LevelProcess Level = "process"
)

// Check asks whether a source may run.
type Check struct {
	Source string `json:"source"`
}

// Checked is the gate's answer.
type Checked struct {
	Refusals   []Refusal `json:"refusals,omitempty"` // none: it may run
	Tools      []string  `json:"tools,omitempty"`    // the constant paths of tools, sorted, as written
	Dynamic    bool      `json:"dynamic,omitempty"`  // it also uses paths that only running it shows
	TypeScript bool      `json:"typescript,omitempty"`
}

// Refusal is one reason why a source may not run, at its place in the source as
// it was given. Line and column count from one, columns in characters.
type Refusal struct {
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// Run starts the source that was checked.
type Run struct {
	Now    int64  `json:"now"`  // the clock of the script, in milliseconds since 1970
	Seed   uint64 `json:"seed"` // of Math.random
	Limits Limits `json:"limits"`
}

// Limits are what the worker itself keeps; time and memory are also kept from outside.
type Limits struct {
	Heap     int64 `json:"heap"`     // bytes
	Stack    int   `json:"stack"`    // calls of JavaScript
	Calls    int   `json:"calls"`    // of tools
	Argument int   `json:"argument"` // bytes of the JSON of one call's arguments
	Result   int   `json:"result"`   // bytes of the JSON of the script's value
	Logs     int   `json:"logs"`     // bytes of all log messages
	InFlight int   `json:"inFlight"` // calls at once; more wait in the worker
}

// CallKind is what a call asks for.
type CallKind string

// The kinds of calls. A timer is one too, so that the order in which timers and
// answers come is recorded and can be repeated.
const (
	CallTool     CallKind = "tool"
	CallSearch   CallKind = "search"
	CallDescribe CallKind = "describe"
	CallTimer    CallKind = "timer" // Args is the delay in milliseconds, a JSON number
)

// Call asks the host for something. The worker goes on; Reply ends it.
type Call struct {
	Seq  int      `json:"seq"` // from 1, in the order the script made them
	Kind CallKind `json:"kind"`
	Path string   `json:"path,omitempty"` // as the script wrote it: github.listPullRequests
	Args string   `json:"args,omitempty"` // JSON, written once, at the time of the call
	Line int      `json:"line,omitempty"` // where, in the source as it was given
}

// Reply settles one call. The worker takes one at a time and runs the script until
// it waits again before it takes the next: the order of replies is all that a
// script can see of time.
type Reply struct {
	Seq   int        `json:"seq"`
	Now   int64      `json:"now"`             // the clock moves to here, in milliseconds since 1970
	Value string     `json:"value,omitempty"` // JSON; empty is undefined
	Error *ToolError `json:"error,omitempty"`
}

// ToolError is what a script may know of a call that failed. No field holds a
// secret or anything of the host's own.
type ToolError struct {
	Tool      string `json:"tool"`
	Code      string `json:"code"` // of runtime.Codes
	Message   string `json:"message"`
	Status    int    `json:"status,omitempty"` // of the upstream's answer
	Retryable bool   `json:"retryable,omitempty"`
}

// Log is one message of console.
type Log struct {
	Level   string `json:"level"` // debug, info, log, warn, error
	Message string `json:"message"`
}

// Idle says that the script waits: nothing runs until a reply comes. Timers are not
// listed, since a script may have thousands and says Idle after each.
type Idle struct {
	Waiting []int `json:"waiting,omitempty"` // the calls that have no reply yet, but for timers
	Timers  bool  `json:"timers,omitempty"`  // it waits for a timer too
	Heard   int   `json:"heard,omitempty"`   // the replies that it has taken: whoever has sent more knows that this came before them
}

// Kind is how a script ended.
type Kind string

// The kinds of endings other than well.
const (
	KindRejected    Kind = "rejected"    // the gate refused it
	KindException   Kind = "exception"   // it threw
	KindTimeout     Kind = "timeout"     // it ran too long
	KindMemory      Kind = "memory"      // it wanted too much memory
	KindStack       Kind = "stack"       // it nested too deep
	KindCalls       Kind = "calls"       // too many calls, or too large
	KindDeadlock    Kind = "deadlock"    // it waits for what can never come
	KindInterrupted Kind = "interrupted" // stopped from outside, or what it did is not known
)

// Done ends the conversation.
type Done struct {
	Value     string   `json:"value,omitempty"` // JSON; empty is undefined
	Failure   *Failure `json:"failure,omitempty"`
	Unawaited []int    `json:"unawaited,omitempty"` // calls without a reply when the script ended
}

// Failure is how a script ended when not well.
type Failure struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name,omitempty"` // of the error: TypeError, ToolError
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // in the source as it was given; 0: not known
	Column  int    `json:"column,omitempty"`
	Stack   string `json:"stack,omitempty"` // places in the script only
}
