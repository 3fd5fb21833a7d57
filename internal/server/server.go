package server

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// maxBody is the longest request body, in bytes: a source of 64 KiB, however its
// JSON is written.
const maxBody = 512 << 10

// requestID is the field that names the request, in answers and in the trail.
const requestID = "X-Request-Id"

// maxConnections bounds the connections of one listener; those of nobody give way, and one
// principal's requests have three quarters of them.
const maxConnections = 256

// arrival is how long a request may take to arrive, with its body.
const arrival = 30 * time.Second

// patience is how long a caller may leave one piece of an answer untaken. It counts
// from the moment that the piece is written, so it does not bound how long a script
// runs. How long a whole answer may be under way package socket knows.
const patience = 30 * time.Second

// Script is what is asked to run.
type Script struct {
	Code    string
	Timeout time.Duration   // 0: the default
	Wait    time.Duration   // for a person, before it is paused
	Waits   func(id string) // told of the execution each time that it begins to wait
	Allow   []string
	Caller  runtime.Caller
}

// Answer is how an execution stands, as it is written to the caller.
type Answer struct {
	Body any    // of package sandbox; written as JSON
	Open bool   // it runs or waits: 202 instead of 200
	ID   string // of the execution, "" where there is none
}

// Options are what a [Server] needs; all but Log are required.
type Options struct {
	// Identify says who a caller is, before anything else of a request is looked at.
	Identify func(ctx context.Context, caller runtime.Caller) (runtime.Principal, error)

	Execute func(ctx context.Context, s Script) (Answer, error)
	Status  func(ctx context.Context, caller runtime.Caller, id string) (Answer, error)
	Resume  func(ctx context.Context, caller runtime.Caller, id string, wait time.Duration) (Answer, error)
	Health  func(ctx context.Context) error
	Notice  func() string // what /healthz adds to "ok"; nil: nothing
	// RequireToken refuses callers without one, whoever their peer is. It must be
	// set for a listener that is not a unix socket.
	RequireToken bool
	Log          zerolog.Logger

	Metrics  *Metrics                            // nil: no /metrics
	Agent    Agent                               // nil: scripts only
	Operator Operator                            // nil: no page that needs a role
	Lender   Lender                              // nil: there is no proxy to borrow
	Console  Console                             // nil: there is no page for browsers
	Hosts    []string                            // names beside addresses and localhost that it may be called by
	Nameless bool                                // no setting adds any to them
	Assume   func(runtime.Caller) runtime.Caller // whom a request is of; nil: of whom it shows
	Shutdown func()                              // of a daemon: ends it; nil: there is no such page
	Cause    bool                                // tell the caller, who is the owner's own program, also what is for the log
	Clock    func() time.Time                    // nil: that of the machine
}

// Server answers on any number of listeners.
type Server struct {
	o       Options
	router  chi.Router
	http    *http.Server
	running running // requests
	once    once
	large   large
	door    doorman
	cursors [32]byte // signs cursors

	room     int           // connections of one listener
	patience time.Duration // with a caller that does not read

	described []byte // what /openapi.json says
	pages     string // where it says which pages there are, for who asks for none of them
}

// New checks the options.
func New(o Options) (*Server, error) {
	if o.Identify == nil || o.Execute == nil || o.Status == nil || o.Resume == nil || o.Health == nil {
		return nil, errors.New("server: Options.Identify, Execute, Status, Resume and Health are required")
	}
	if o.Operator != nil && o.Agent == nil {
		return nil, errors.New("server: Options.Operator needs Options.Agent")
	}
	if o.Lender != nil && (o.Agent == nil || !o.RequireToken) {
		return nil, errors.New("server: Options.Lender needs Options.Agent and RequireToken")
	}
	s := newServer(o)
	router := s.routes()
	var err error
	if s.described, err = describe(router, o.RequireToken); err != nil {
		return nil, err
	}
	s.listen(router)
	return s, nil
}

func newServer(o Options) *Server {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	s := &Server{
		o: o, room: maxConnections, patience: patience,
		large: large{by: map[string]int{}, patient: largePatient, clock: o.Clock}, door: doorman{clock: o.Clock, left: strangers},
		once: once{clock: o.Clock, kept: map[keptKey]*kept{}, count: map[string]int{}}, pages: "see /v1/openapi.json",
	}
	_, _ = rand.Read(s.cursors[:]) // never fails since Go 1.24
	return s
}

// listen makes the server of the pages.
func (s *Server) listen(pages chi.Router) {
	s.router = pages
	s.http = &http.Server{
		Handler: s.tracked(s.console(pages)), ConnContext: withPeer, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: arrival,
		IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	socket.Watch(s.http)
}

// Serve answers on a listener until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	err := s.http.Serve(socket.Bounded(ln, socket.Bounds{Most: s.room, Patience: s.patience, Clock: s.o.Clock}))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// running counts requests, for who waits until there are none.
type running struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed at the next time that there are none; nil: nobody waits
}

func (r *running) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n += n; r.n == 0 && r.idle != nil {
		close(r.idle)
		r.idle = nil
	}
}

// none is closed once there are none. A request that begins after that is not waited
// for: its connection may have been about to, when it was closed.
func (r *running) none() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.idle == nil {
		r.idle = make(chan struct{})
	}
	idle := r.idle
	if r.n == 0 {
		close(r.idle)
		r.idle = nil
	}
	return idle
}

// tracked knows which requests run.
func (s *Server) tracked(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.running.add(1)
		defer s.running.add(-1)
		pages.ServeHTTP(w, r)
	})
}

// Shutdown stops to accept and waits for what runs, until ctx ends; then that is
// cut off, which ends it soon.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
		s.settle()
	}
	return err
}

// lastWords is what a request has left when its connection was closed.
const lastWords = 2 * time.Second

// settle waits for the requests that were cut off, so that what became of them is
// recorded when Shutdown returns.
func (s *Server) settle() {
	select {
	case <-s.running.none():
	case <-time.After(lastWords):
	}
}

// caller is who a request shows to be.
func (s *Server) caller(r *http.Request) (runtime.Caller, error) {
	token, err := runtime.Bearer(r.Header)
	caller := runtime.Caller{Token: token, Peer: peerOf(r.Context()), Source: source(r), RequireToken: s.o.RequireToken}
	if err == nil && s.o.Assume != nil {
		caller = s.o.Assume(caller)
	}
	return caller, err
}

// source is the address that a request comes from, without its port.
func source(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Health(r.Context()); err != nil {
		http.Error(w, runtime.Unwell(err), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, runtime.Well(s.o.Notice))
}
