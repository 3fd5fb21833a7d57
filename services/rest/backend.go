package rest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/proxy/gate"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/scrub"
	"github.com/kimbap-run/kimbap/services/rest/witness"
)

// Dialer opens connections through the egress guard. Its refusals are
// *runtime.Error and reach the caller as they are. Trusted says that the
// request came from the owner without a token, loopback that the action's own
// service names an authority of this machine. It is safe for concurrent use.
type Dialer interface {
	Dial(ctx context.Context, authority string, trusted, loopback bool) (conn net.Conn, address string, private bool, err error)
}

// Roots are what upstream certificates are verified with. It is asked for them at each
// handshake, and is safe for concurrent use.
type Roots interface {
	// First returns those to try first, and whether they are all there are.
	First() (pool *x509.CertPool, all bool)
	// All returns all. It is asked when the first ones have not verified a certificate.
	All() *x509.CertPool
}

// Options are what a [Backend] is made of. Dialer is required.
type Options struct {
	Dialer Dialer
	// TLS holds the roots and VerifyConnection of upstream connections; nil
	// trusts the system's roots. It is cloned; TLS 1.2 is the least.
	TLS *tls.Config
	// Roots take the place of those of TLS; nil: those of TLS.
	Roots Roots
	// Placeholders says which service a value is the placeholder of; nil knows
	// those of the action's own service only.
	Placeholders func(value string) (service string, ok bool)
	// KeyOf says under which name the vault has the key of a service, "" for none: services
	// of one key take each other's placeholders. Nil knows none.
	KeyOf func(service string) string
	// PlaceholderIn says which service has a placeholder that stands in the name of a
	// field, in any case; nil knows none.
	PlaceholderIn func(name string) (service string, ok bool)

	// Hold is told of a connection that is passed on raw after an upgrade, and ends it by
	// end when the dialer would not open it any more. Release says that it has ended. Nil:
	// it is as it was when it was opened.
	Hold func(authority, address string, trusted, loopback bool, end func()) (release func())

	Times
	IdleConnections int // kept open in all; 0: no bound but that of each authority
	Clock           func() time.Time
	Wait            func(ctx context.Context, d time.Duration) error // before a built request is sent again; nil: a timer
	ScrubStrict     bool                                             // refuse answers in an encoding that cannot be scanned
	Engine          Engine

	// VerifyMutations compares every exchange with what came, on the wire too,
	// and breaks it at the first change that was not declared (package witness). It
	// costs a copy of every byte: it is for tests and for finding defects.
	VerifyMutations bool
}

// Engine is what speaks HTTP/1.1 to upstreams.
type Engine string

// The engines. The zero value is EngineStd.
const (
	EngineStd   Engine = "std"   // net/http
	EngineRelay Engine = "relay" // ours: see relay.go
)

// Bounds of one upstream connection.
const (
	headLimit        = 256 << 10 // of an answer's head, bytes
	idleConnections  = 512       // kept per authority
	keptIdle         = 90 * time.Second
	continueTimeout  = time.Second // RFC 9110 section 10.1.1: a client waits, but not for ever
	informationLimit = 64          // 1xx answers to one request
	bufferSize       = 32 << 10    // of a copy loop, bytes
	smallSize        = 4 << 10     // of a buffer for a head, at least; a body that is shorter has one of those
)

// Backend sends HTTP actions. It is safe for concurrent use.
//
// Connections are shared by all tenants. That mixes nothing: an exchange leaves
// no state on an HTTP/1.1 connection (there is no cookie jar and no cache),
// except for NTLM and Negotiate, which authenticate the connection itself; a
// request with one of those gets a connection of its own. Streams of HTTP/2 do
// not see each other. Bytes that nobody
// asked for close a connection before anyone else can take them (link.go).
type Backend struct {
	o        Options
	lines    atomic.Pointer[lines] // for the next request
	buffers  sync.Pool             // of *[]byte, bufferSize long
	large    rooms                 // for bodies longer than bufferSize
	bulky    rooms                 // for those of bulkyBody and more
	heads    sync.Pool             // of *[]byte
	matchers scrub.Cache           // by credential
	windows  *gate.Gate[string]    // bytes that decoders keep, by principal
}

// trust is what the egress guard is told of a request; connections dialled
// under one trust are not lent to another.
type trust struct{ trusted, loopback bool }

var _ runtime.Backend = (*Backend)(nil)

// New refuses Options without a Dialer. It does no IO.
func New(o Options) (*Backend, error) {
	if o.Dialer == nil {
		return nil, errors.New("rest: Options.Dialer is missing: nothing may be dialled unguarded")
	}
	var err error
	if o.Times, err = o.Times.withDefaults(); err != nil {
		return nil, err
	}
	if o.TLS == nil {
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if o.KeyOf == nil {
		o.KeyOf = func(string) string { return "" }
	}
	if o.Placeholders == nil {
		o.Placeholders = func(string) (string, bool) { return "", false }
	}
	if o.PlaceholderIn == nil {
		o.PlaceholderIn = func(string) (string, bool) { return "", false }
	}
	switch o.Engine {
	case "":
		o.Engine = EngineStd
	case EngineStd, EngineRelay:
	default:
		return nil, fmt.Errorf("rest: unknown engine %q", o.Engine)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Wait == nil {
		o.Wait = wait
	}
	b := &Backend{o: o, windows: newWindows()}
	b.large.body, b.large.ahead, b.large.most = largeSize, largeSize, largeLent
	b.bulky.body, b.bulky.ahead, b.bulky.most = bulkySize, bulkyAhead, bulkyLent
	first, err := newLines(&b.o)
	if err != nil {
		return nil, err
	}
	b.lines.Store(first)
	return b, nil
}

// withBuffer lends do a buffer for the body that is known to come.
func (x *exchange) withBuffer(do func(buf []byte) error) error {
	if x.room != nil {
		return do(x.room)
	}
	return x.b.withBuffer(do)
}

// withBuffer lends do a buffer of bufferSize bytes.
func (b *Backend) withBuffer(do func(buf []byte) error) error {
	buf, ok := b.buffers.Get().(*[]byte)
	if !ok {
		fresh := make([]byte, bufferSize)
		buf = &fresh
	}
	defer func() {
		clear(*buf) // bytes of one exchange never lie about in another's
		b.buffers.Put(buf)
	}()
	return do(*buf)
}

// Close drops the connections that no exchange is using. The backend can be
// used again afterwards.
func (b *Backend) Close() {
	b.lines.Load().close()
}

// Execute implements [runtime.Backend]. Used is set once the request may have
// left, Status once an answer came. When the error is not nil and out was
// started, the answer is not complete and the caller of Execute must Abort it.
func (b *Backend) Execute(ctx context.Context, call *runtime.Call, out runtime.Responder) (runtime.Result, error) {
	if again := retryOf(call); again != nil {
		return b.persist(ctx, call, again, out)
	}
	return b.once(ctx, call, out)
}

// once sends the call one time. What there was no connection for has not left.
func (b *Backend) once(ctx context.Context, call *runtime.Call, out runtime.Responder) (result runtime.Result, err error) {
	defer func() { result.Unsent = err != nil && result.Address == "" }()

	var w *witness.Witness // nil: nobody compares
	if b.o.VerifyMutations {
		w = witness.New(call, &result)
	}
	m, err := b.compose(call, &result)
	if err == nil && w != nil {
		err = w.Judge(m.leaving())
	}
	if err != nil {
		return result, err
	}
	x := &exchange{b: b, lines: b.lines.Load(), call: call, message: m, out: w.Watch(out), result: &result, witness: w}
	if err = x.run(ctx); err == nil {
		err = w.Done()
	}
	return result, err
}

// compose makes the message that will leave, credential and all.
func (b *Backend) compose(call *runtime.Call, result *runtime.Result) (*message, error) {
	var m *message
	var err error
	if call.Request.Raw != nil {
		m, err = b.forward(call, result)
	} else {
		m, err = built(call, result)
	}
	if err != nil {
		return nil, err
	}
	if err := b.authenticate(call, m, result); err != nil {
		return nil, err
	}
	return m, m.check()
}

// trustOf is what the egress guard may know of the call.
func trustOf(call *runtime.Call, authority string) trust {
	return trust{
		trusted:  call.Request.Caller.IsOwner(),
		loopback: names(call.Action.HTTP, authority) && isLoopback(authority),
	}
}
