package server

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/kimbap-run/kimbap/runtime"
)

// maxBody is the longest request body, in bytes: a source of 64 KiB, however its
// JSON is written.
const maxBody = 512 << 10

// maxConnections bounds the connections of one listener.
const maxConnections = 256

//go:embed openapi.json
var openapi []byte

// Script is what is asked to run.
type Script struct {
	Code    string
	Timeout time.Duration // 0: the default
	Wait    time.Duration // for a person, before it is paused
	Allow   []string
	Caller  runtime.Caller
}

// Answer is how an execution stands, as it is written to the caller.
type Answer struct {
	Body any  // of package sandbox; written as JSON
	Open bool // it runs or waits: 202 instead of 200
}

// Options are what a [Server] needs; all but Log are required.
type Options struct {
	Execute func(ctx context.Context, s Script) (Answer, error)
	Status  func(ctx context.Context, caller runtime.Caller, id string) (Answer, error)
	Resume  func(ctx context.Context, caller runtime.Caller, id string, wait time.Duration) (Answer, error)
	Health  func(ctx context.Context) error
	// RequireToken refuses callers without one, whoever their peer is. It must be
	// set for a listener that is not a unix socket.
	RequireToken bool
	Log          zerolog.Logger
}

// Server answers on any number of listeners.
type Server struct {
	o    Options
	http *http.Server
}

// New checks the options.
func New(o Options) (*Server, error) {
	if o.Execute == nil || o.Status == nil || o.Resume == nil || o.Health == nil {
		return nil, errors.New("server: Options.Execute, Status, Resume and Health are required")
	}
	s := &Server{o: o}
	r := chi.NewRouter()
	r.Use(s.guard)
	r.NotFound(s.handle(func(http.ResponseWriter, *http.Request) error { return noPage() }))
	r.MethodNotAllowed(s.handle(func(http.ResponseWriter, *http.Request) error { return wrongMethod() }))
	r.Get("/healthz", s.health)
	r.Get("/v1/openapi.json", s.description)
	r.Post("/v1/exec", s.handle(s.exec))
	r.Get("/v1/exec/{id}", s.handle(s.status))
	r.Post("/v1/exec/{id}/resume", s.handle(s.resume))
	s.http = &http.Server{
		Handler: r, ConnContext: withPeer, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
	}
	return s, nil
}

// Serve answers on a listener until Shutdown.
func (s *Server) Serve(ln net.Listener) error {
	err := s.http.Serve(&limited{Listener: ln, room: make(chan struct{}, maxConnections)})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops to accept and waits for what runs, until ctx ends; then that is
// cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	return err
}

// guard refuses what a browser may have been made to send, and names that another
// machine may have been given.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
			s.problem(w, &runtime.Error{Code: runtime.CodeForbidden, Msg: "pages of a browser are not served here", Hint: "call it from a program"})
		case s.o.RequireToken && !ourName(r):
			s.problem(w, &runtime.Error{Code: runtime.CodeMisdirected, Msg: "the request names another host", Hint: "use the address that kimbap printed at its start"})
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ourName reports whether the Host of a request is an address, or localhost: a
// name that somebody else's DNS answers is neither.
func ourName(r *http.Request) bool {
	host, _ := runtime.SplitAuthority(r.Host)
	if strings.EqualFold(host, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// caller is who a request shows to be.
func (s *Server) caller(r *http.Request) runtime.Caller {
	caller := runtime.Caller{Peer: peerOf(r.Context()), RequireToken: s.o.RequireToken}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		caller.Token = runtime.NewSecret(strings.TrimSpace(token))
	}
	return caller
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if err := s.o.Health(r.Context()); err != nil {
		http.Error(w, "not well", http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (s *Server) description(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(openapi)
}

// limited lets in so many connections at a time; more wait in the kernel's queue.
type limited struct {
	net.Listener
	room chan struct{}
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	l.room <- struct{}{}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.room
		return nil, err
	}
	return &counted{Conn: conn, leave: l.room}, nil
}
