package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/proxy/detour"
	"github.com/kimbap-run/kimbap/proxy/http2"
	"github.com/kimbap-run/kimbap/proxy/peer"
	"github.com/kimbap-run/kimbap/runtime"
)

// Server is the proxy. It is safe for concurrent use.
type Server struct {
	o         Options
	http      *http.Server
	h2        *http2.Server
	front     *goproxy.ProxyHttpServer
	tls       *tls.Config
	feed      *feed
	tunnels   *tunnels
	visitors  *visitors
	admission *admission
	scratches scratches
	records   sync.Pool // of *[]byte, for interior.together
	outs      sync.Pool // of *[]byte: buffers of the relay engine
	relays    *relays
	crew      crew
	feeding   sync.Once
	base      context.Context // of all requests; ends with Shutdown
	cancel    context.CancelFunc
	closing   context.Context // ends when Shutdown begins
	close     context.CancelFunc
	fresh     sync.Map       // net.Conn that have sent no request yet
	active    sync.WaitGroup // handlers of connections that net/http no longer knows

	results    func(approvalID string) string // where callers see how an approval stands
	everywhere atomic.Bool                    // the listener has no address of its own

	mu   sync.Mutex
	addr net.Addr
}

var _ http.Handler = (*Server)(nil)

// New makes a Server that does not listen yet.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Limits = o.Limits.withDefaults()
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Peer == nil {
		o.Peer = peer.Of
	}
	s := &Server{
		o: o, feed: newFeed(), tunnels: newTunnels(o.Limits), visitors: newVisitors(o.Limits),
		admission: newAdmission(o.Limits), relays: newRelays(),
	}
	s.results = s.approvalURL // once, not for every request
	s.base, s.cancel = context.WithCancel(context.Background())
	s.closing, s.close = context.WithCancel(context.Background())
	s.crew = newCrew(s.closing.Done())
	s.front = s.newFront()
	s.tls = s.newTLS()
	s.http = &http.Server{
		Handler:                      s,
		ReadHeaderTimeout:            o.Limits.HeadTimeout,
		IdleTimeout:                  o.Limits.IdleTimeout,
		MaxHeaderBytes:               o.Limits.HeaderBytes,
		DisableGeneralOptionsHandler: true,
		ConnState:                    s.noteState,
		ErrorLog:                     log.New(&serverLog{s.o.Log}, "", 0),
		BaseContext:                  func(net.Listener) context.Context { return s.base },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	var err error
	s.h2, err = s.newHTTP2()
	return s, err
}

// Serve accepts connections from ln, which it owns from now on, until Shutdown;
// then it returns nil. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	s.addr = ln.Addr()
	s.mu.Unlock()
	s.everywhere.Store(isEverywhere(ln.Addr()))
	return s.serve(ln)
}

// ServeLed is Serve for connections of programs that know of no proxy, and were
// led here by the network they are in. authority says which host and port a
// connection was meant for; what was meant for none is closed. Each is treated
// as if it had begun with a CONNECT to it.
func (s *Server) ServeLed(ln net.Listener, authority func(c net.Conn) (string, bool)) error {
	return s.serve(detour.New(ln, authority))
}

func (s *Server) serve(ln net.Listener) error {
	s.feeding.Do(func() { go func() { _ = s.http.Serve(s.feed) }() })
	own := &acceptor{Listener: ln, s: s, closed: make(chan struct{})}
	if s.o.Engine == EngineRelay {
		return s.accept(own)
	}
	err := s.http.Serve(own)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// accept gives every connection to the relay engine, until Shutdown.
func (s *Server) accept(ln *acceptor) error {
	defer context.AfterFunc(s.closing, func() { _ = ln.Close() })()
	for {
		c, err := ln.Accept()
		if err != nil {
			_ = ln.Close()
			if s.closing.Err() != nil {
				return nil
			}
			return err
		}
		own := c.(*conn) //nolint:forcetypeassert // what our acceptor gives
		s.crew.do(func() { s.serveRelay(own) })
	}
}

// Addr is where the latest listener of Serve listens; nil before it.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Shutdown stops accepting and lets requests finish, for at most the drain time
// and no longer than ctx; raw tunnels close when they fall quiet. Then it
// closes what is left and returns when every handler has returned, so that all
// outcomes are with the trail. The error is ctx's or that of running out of time.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Limits.DrainTimeout)
	defer cancel()
	s.close()
	s.relays.draining.Store(true)
	s.tunnels.drain()
	s.h2.Drain()
	defer time.AfterFunc(quietFor, s.closeFresh).Stop()
	relayed := make(chan error, 1)
	go func() { relayed <- s.relays.drain(ctx) }() // now: it may take net/http all the time there is
	err := s.http.Shutdown(ctx)
	if err = errors.Join(err, <-relayed); err != nil {
		_ = s.http.Close()
	}
	err = errors.Join(err, s.settled(ctx))
	s.tunnels.idle(ctx.Done())
	s.tunnels.closeAll()
	s.visitors.closeAll()
	s.cancel()
	return errors.Join(err, s.settle())
}

// settle waits for the handlers that are left. Their connections are closed and
// their contexts done, so one that stays is a fault of a backend.
func (s *Server) settle() error {
	done := make(chan struct{})
	go func() { defer close(done); s.active.Wait() }()
	select {
	case <-done:
		return nil
	case <-time.After(s.o.Limits.DrainTimeout):
		return errors.New("proxy: requests are still running")
	}
}

// noteState keeps the connections that have sent no request yet: net/http waits
// five seconds for one of them when it shuts down.
func (s *Server) noteState(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.fresh.Store(c, nil)
	} else {
		s.fresh.Delete(c)
	}
}

func (s *Server) closeFresh() {
	s.fresh.Range(func(c, _ any) bool {
		if closer, ok := c.(io.Closer); ok {
			_ = closer.Close()
		}
		return true
	})
}

// Reloaded says that services, policy or what is intercepted are others now: raw tunnels, and
// upgraded connections, whose request would not be let through any more are
// closed. The next request in any other tunnel is judged anew anyway.
func (s *Server) Reloaded() { s.tunnels.closeFallen(s.stands) }

// Recheck closes raw tunnels, and upgraded connections in other tunnels, whose
// caller would be turned away now: nothing in them is a request that could be
// refused. Of a token that was revoked, or has expired, it ends what still flows too,
// such as a stream of events, in plain HTTP as well; of one that is not known any more
// every tunnel, since its tenant is gone. It costs one identification for each principal
// that has a tunnel, or a request outside of one. While the vault is locked it ends
// what flows to and from hosts of services.
func (s *Server) Recheck(ctx context.Context) {
	s.endLocked()
	callers := s.tunnels.callers()
	s.visitors.callers(callers)
	for owner, caller := range callers {
		_, err := s.o.Identity.Identify(ctx, caller)
		if err == nil || !unknown(runtime.AsError(err)) { // a store that is busy closes nothing
			continue
		}
		reason := runtime.AsError(err).Reason
		over := reason == runtime.ReasonTokenRevoked || reason == runtime.ReasonTokenExpired
		lost := reason == runtime.ReasonTokenUnknown || reason == runtime.ReasonTooManyRequests // one of many that are not known
		s.tunnels.closeThose(func(p *place) bool {
			return p.owner == owner && (p.spliced || p.upgraded || lost || over && p.flows())
		})
		if over || lost {
			s.visitors.cut(func(of string, _ runtime.Target) bool { return of == owner })
		}
	}
}

// ServeHTTP takes one request from any of our connections.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := connOf(r.Context())
	if c == nil {
		http.Error(w, "not a connection of the proxy", http.StatusInternalServerError)
		return
	}
	s.active.Add(1)
	defer s.active.Done()
	defer c.guard.resume()
	defer s.recover(w, r, c)
	c.started.Store(false)
	defer c.rest()
	if !c.wake() {
		panic(http.ErrAbortHandler)
	}
	if r.Method != refusedMethod {
		c.head = c.guard.taken()
	}
	switch {
	case r.Method == refusedMethod:
		s.refuseHead(w, r, c)
	case c.tunnel != nil:
		s.exchange(w, r, c)
	case r.Method == http.MethodConnect:
		s.front.ServeHTTP(&takeover{w}, r)
	case r.URL.IsAbs():
		s.exchange(w, r, c)
	default:
		s.front.ServeHTTP(w, r)
	}
}

// recover keeps a panic to its own request: a 500 if there was no answer yet.
func (s *Server) recover(w http.ResponseWriter, r *http.Request, c *conn) {
	p := recover()
	if p == nil {
		return
	}
	if p != http.ErrAbortHandler { //nolint:errorlint // a sentinel that is compared, as net/http does
		s.o.Log.Error().Interface("panic", p).Str("method", r.Method).Bytes("stack", debug.Stack()).Msg("panic in the proxy")
		if !c.started.Load() {
			runtime.WriteProblem(w, panicError(p), runtime.Asker{})
			_ = http.NewResponseController(w).Flush()
		}
	}
	panic(http.ErrAbortHandler) // closes the connection: what was sent is not complete
}

// broke logs a panic outside of a request, which ends one connection.
func (s *Server) broke(where string, p any) {
	s.o.Log.Error().Interface("panic", p).Str("where", where).Bytes("stack", debug.Stack()).Msg("panic in the proxy")
}

func panicError(p any) *runtime.Error { return runtime.AsError(fmt.Errorf("panic: %v", p)) }

// serverLog writes net/http's complaints to our log.
type serverLog struct{ log zerolog.Logger }

// Write implements [io.Writer].
func (l *serverLog) Write(p []byte) (int, error) {
	l.log.Debug().Str("detail", strings.TrimSpace(string(p))).Msg("http server")
	return len(p), nil
}

var _ io.Writer = (*serverLog)(nil)

// intercepts reports whether a CONNECT to authority is opened.
func (s *Server) intercepts(authority string) bool {
	return s.o.Table().Intercepts(authority) || !runtime.RawPort(authority) && s.o.InterceptAll != nil && s.o.InterceptAll()
}

// permits asks whether there will be a certificate for a tunnel to authority:
// after the 200 the client could only be told by an alert.
func (s *Server) permits(authority string) error {
	if s.o.Permits == nil {
		return nil
	}
	return s.o.Permits(authority)
}

// answer is a responder that knows how its answer began.
type answer interface {
	runtime.Responder
	// sent returns the status of the answer, 0 before it began.
	sent() int
}

// send hands a request to the pipeline and logs the end. Whoever calls it answers a refusal.
func (s *Server) send(ctx context.Context, req *runtime.Request, out answer) error {
	err := s.o.Pipeline.Do(ctx, req, out)
	s.logRequest(req, out, err)
	return err
}

// logRequest is the one line of a request, at its end. A fault of our own is an
// error in the log too: its caller is told to look there.
func (s *Server) logRequest(req *runtime.Request, out answer, err error) {
	e := s.o.Log.Info
	failed := runtime.AsError(err)
	if failed != nil && failed.Code == runtime.CodeInternal {
		e = s.o.Log.Error
	}
	s.logEnd(e(), req, out, failed)
}

func (s *Server) logEnd(e *zerolog.Event, req *runtime.Request, out answer, failed *runtime.Error) {
	if !e.Enabled() {
		return // as it usually is not: the time would be asked for nothing
	}
	if failed != nil {
		e = e.Str("code", string(failed.Code)).Str("reason", string(failed.Reason)).AnErr("error", failed.Err)
	}
	e.Str("request_id", req.ID).Str("surface", string(req.Surface)).Str("action", string(req.Action)).
		Str("method", req.Target.Method).Str("authority", req.Target.Authority).Int("status", out.sent()).
		Dur("duration", s.o.Clock().Sub(req.Received)).Msg("request")
}
