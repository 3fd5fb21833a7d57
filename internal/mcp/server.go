package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxMessage is the longest message of a client, in bytes.
const maxMessage = 4 << 20

// maxInFlight bounds the calls of tools that run or wait at once.
const maxInFlight = 64

// Search is what is looked for.
type Search struct {
	Query         string
	Limit, Offset int
}

// Call is one action that is asked for.
type Call struct {
	Action  string
	Args    runtime.Args
	Wait    time.Duration                        // for a person, before the answer is that one must decide
	Pending func(approvalID string, _ time.Time) // told when a person must
}

// Answer is what an action answered.
type Answer struct {
	Status  int             // of the upstream
	Value   json.RawMessage // JSON; empty: nothing
	Expires time.Time       // with CodeApprovalPending: when the question does
}

// Script is a source that shall run.
type Script struct {
	Code    string
	Allow   []string
	Timeout time.Duration // 0: the default
	Wait    time.Duration
	Pending func(approvalID string, _ time.Time) // as of a Call, each time
}

// Resumption asks for what waits for a person.
type Resumption struct {
	ID      string
	Wait    time.Duration
	Pending func(approvalID string, _ time.Time) // told of a further question, not of the one that it is about
}

// Execution is how a script stands.
type Execution struct {
	Body     any    // of package sandbox; written as a JSON object
	Text     string // the same for a reader
	Failed   bool
	ID       string
	Approval string    // that it waits for; "": it does not
	Expires  time.Time // when the question of that does
}

// Reach is the most that the actions of a caller can do. The zero Reach is the
// worst one.
type Reach struct {
	ReadOnly   bool // none changes anything
	Harmless   bool // none takes away or hands out power
	Repeatable bool // doing each twice is doing it once
}

// Options are what a [Server] needs; all but Caller, RequireToken and Log are
// required. Errors are *runtime.Error.
type Options struct {
	Identify func(ctx context.Context, caller runtime.Caller) (runtime.Principal, error)
	Reach    func(who *runtime.Principal) Reach
	Search   func(ctx context.Context, caller runtime.Caller, s Search) (any, error)
	Describe func(ctx context.Context, caller runtime.Caller, name string) (any, error)
	Call     func(ctx context.Context, caller runtime.Caller, c Call) (Answer, error)
	Execute  func(ctx context.Context, caller runtime.Caller, s Script) (Execution, error)
	// Resume goes on with a script, Collect with an action that waits for a person.
	Resume  func(ctx context.Context, caller runtime.Caller, r Resumption) (Execution, error)
	Collect func(ctx context.Context, caller runtime.Caller, r Resumption) (Answer, error)
	Health  func(ctx context.Context) error

	// Caller is who the one client on stdin is. Over HTTP RequireToken must be set
	// instead: then each request shows its own.
	Caller       runtime.Caller
	RequireToken bool
	Version      string
	Log          zerolog.Logger
}

func (o *Options) check() error {
	for _, required := range []struct {
		name    string
		missing bool
	}{
		{"Identify", o.Identify == nil}, {"Reach", o.Reach == nil}, {"Search", o.Search == nil}, {"Describe", o.Describe == nil},
		{"Call", o.Call == nil}, {"Execute", o.Execute == nil}, {"Resume", o.Resume == nil}, {"Collect", o.Collect == nil},
		{"Health", o.Health == nil}, {"Version", o.Version == ""},
	} {
		if required.missing {
			return fmt.Errorf("mcp: Options.%s is missing", required.name)
		}
	}
	return nil
}

// Server answers MCP clients. It is safe for concurrent use.
type Server struct {
	o       Options
	sdk     *sdk.Server
	places  places
	long    long
	notices sync.WaitGroup
	unheard atomic.Bool // its client takes nothing any more, no notice either

	patience time.Duration // with what runs, and with a client that does not read, once it shall end
	dawdling time.Duration // of a client that said its last word and takes no answer
	after    func(time.Duration) <-chan time.Time

	life context.Context //nolint:containedctx // of all that runs, which may outlive the request it came with
	end  context.CancelFunc
}

const instructions = `kimbap does actions of real services for you; the keys stay with it.
Find an action with search, look at its arguments with describe, do it with call. For many calls at once write JavaScript and use execute: tools.SERVICE.ACTION({…}) is each.
Some actions need a person. The answer then has "pending": tell the person its approvalId, go on with other work, and later call resume as its "next" says: with the approvalId of a call, with the executionId of a script. Nobody can approve through this server.`

// New checks the options.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{o: o, places: places{by: map[string]int{}}, long: long{by: map[string]int64{}}, patience: lastWords, dawdling: dawdling, after: time.After}
	s.life, s.end = context.WithCancel(context.Background())
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "kimbap", Title: "kimbap", Version: o.Version}, &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: !o.RequireToken}}, // no session lives on over HTTP
	})
	s.addTools()
	s.sdk.AddReceivingMiddleware(s.annotate)
	return s, nil
}

func (s *Server) addTools() {
	for _, t := range s.tools() {
		s.sdk.AddTool(t.tool(), s.handler(t.do))
	}
}

// ToolsChanged tells a client whose session lives on that its tools can do something
// else now, at worst (see annotate). The SDK says it, once, when tools are put in the
// place of others.
func (s *Server) ToolsChanged() { s.addTools() }

// lastWords is how long what runs may take once the client says no more, or the server
// shall end.
const lastWords = 10 * time.Second

// dawdling is how long a client may leave one piece of an answer untaken then, as over HTTP.
const dawdling = 30 * time.Second

// Run serves the one client whose messages come from in, until that ends or ctx
// does. It closes both, and the server.
func (s *Server) Run(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	defer s.Close()
	defer context.AfterFunc(ctx, s.end)()
	heard := &ending{ReadCloser: in, end: s.end, patience: s.patience}
	defer heard.stop()
	to := &turns{WriteCloser: out}
	done := make(chan error, 1)
	go func() {
		from := newLines(heard, to)
		line := &sdk.IOTransport{Reader: from, Writer: to, MaxLineLength: -1} // lines bounds them
		done <- s.sdk.Run(ctx, bounded{line, from})
	}()
	err := s.ended(ctx, done, to)
	if errors.Is(err, errUnheard) {
		s.unheard.Store(true)
		_, _ = in.Close(), out.Close() // a write to a file that blocks does not end with that, but with the process
	}
	if errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) || ctx.Err() != nil {
		return nil
	}
	return err
}

// errUnheard is the end of a session whose client takes no answer any more.
var errUnheard = &runtime.Error{Code: runtime.CodeTimeout, Msg: "the client does not read its answers"}

// ended waits for the end of a session; after that of what runs not for ever: the SDK
// writes what was answered first, and a client that does not read would keep it. One that
// reads slowly has the last answers too, unless ctx ends.
func (s *Server) ended(ctx context.Context, done <-chan error, to *turns) error {
	select {
	case err := <-done:
		return err
	case <-s.life.Done():
	}
	for before := int64(-1); ctx.Err() == nil; {
		taken := to.taken.Load()
		if taken == before {
			return errUnheard
		}
		before = taken
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
		case <-s.after(s.dawdling):
		}
	}
	select {
	case err := <-done:
		return err
	case <-time.After(s.patience):
		return errUnheard
	}
}

// Close ends what runs, and waits for the notices, unless one may stand behind a write that
// does not end. It may be called again.
func (s *Server) Close() {
	s.end()
	if !s.unheard.Load() {
		s.notices.Wait()
	}
}

// ending reads until the client says no more, and a while later ends what runs: a
// call may wait for a person for longer than anybody is there to hear of it.
type ending struct {
	io.ReadCloser
	end      func()
	patience time.Duration
	mu       sync.Mutex
	timer    *time.Timer
}

// Read implements [io.Reader].
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.timer == nil {
			e.timer = time.AfterFunc(e.patience, e.end)
		}
	}
	return n, err
}

func (e *ending) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// caller is who a request is of.
func (s *Server) caller(extra *sdk.RequestExtra) runtime.Caller {
	if !s.o.RequireToken {
		return s.o.Caller
	}
	caller := runtime.Caller{RequireToken: true}
	if extra != nil {
		caller.Token, _ = runtime.Bearer(extra.Header) // known has refused what is none
	}
	return caller
}

// annotate says in the list of tools what they can do at worst in the hands of
// who asks.
func (s *Server) annotate(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		list, is := result.(*sdk.ListToolsResult)
		if err != nil || !is {
			return result, err
		}
		reach := Reach{}
		if who, err := s.o.Identify(ctx, s.caller(req.GetExtra())); err == nil {
			reach = s.o.Reach(&who)
		}
		told := *list
		told.CacheScope = "private" // no cache gives it to another caller
		told.Tools = make([]*sdk.Tool, len(list.Tools))
		for i, t := range list.Tools {
			one := *t
			if one.Annotations == nil {
				one.Annotations = reach.annotations()
			}
			told.Tools[i] = &one
		}
		return &told, nil
	}
}

func (r Reach) annotations() *sdk.ToolAnnotations {
	destructive, open := !r.ReadOnly && !r.Harmless, true
	return &sdk.ToolAnnotations{ReadOnlyHint: r.ReadOnly, DestructiveHint: &destructive, IdempotentHint: r.Repeatable, OpenWorldHint: &open}
}
