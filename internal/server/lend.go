package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// A kimbap elsewhere borrows the proxy: it forwards the connections of its programs,
// each as one connection to us that shows its token and is then the proxy's
// (RFC 9110 section 7.8). So the token stays with it, and TLS, names and limits are
// those of every page.

// upgradeTo is the protocol that such a connection changes to.
const upgradeTo = "kimbap-proxy"

// The fields in which a kimbap elsewhere says whom it forwards for.
const (
	fieldRun     = "Kimbap-Run"
	fieldAddress = "Kimbap-Address"

	// fieldUnattended says that nobody can be asked; the answer repeats it, so that
	// no run takes a server for one that keeps to it which does not know it.
	fieldUnattended = "Kimbap-Unattended"
)

// maxRun is the longest name of a run, in bytes.
const maxRun = 64

// upgradeLimit is how long the answer to an upgrade may take to be written.
const upgradeLimit = 10 * time.Second

// Lender is a proxy that can be borrowed.
type Lender interface {
	// RootPEM are the certificates that programs behind it are to trust; nil when
	// there are none yet.
	RootPEM() []byte
	// Authorities are the host:port of services that have a port of their own, which
	// a network that leads its programs here must listen on.
	Authorities() []string
	// Take serves a connection as the proxy's. It owns the connection.
	Take(conn net.Conn, who runtime.Principal, caller runtime.Caller)
	// Run says, as it is written as JSON, what became of a run's requests, once its
	// connections have ended or ctx does. Of one that is not known it is an error.
	Run(ctx context.Context, who runtime.Principal, run string) (any, error)
}

func (s *Server) lendRoutes(r chi.Router) {
	r.Get("/v1/proxy", s.as("", s.lent))
	r.Get("/v1/proxy/connection", s.as("", s.lend))
	r.Get("/v1/proxy/runs/{run}", s.as("", s.lentRun))
	if s.o.Operator != nil {
		r.Post("/v1/proxy/tokens", s.as(runtime.RoleOperator, s.runToken))
		r.Post("/v1/proxy/tokens/{id}:prolong", s.as(runtime.RoleOperator, s.prolong))
	}
}

// lent says what whoever borrows the proxy must know.
func (s *Server) lent(w http.ResponseWriter, r *http.Request, _ visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	root := s.o.Lender.RootPEM()
	if len(root) == 0 {
		return &runtime.Error{Code: runtime.CodeVaultLocked, Msg: "there is no certificate yet", Hint: "on its machine: kimbap status"}
	}
	return answerJSON(w, http.StatusOK, map[string]any{"root_pem": string(root), "authorities": s.o.Lender.Authorities()}, nil)
}

func (s *Server) lentRun(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), upgradeLimit)
	defer cancel()
	body, err := s.o.Lender.Run(ctx, a.who, chi.URLParam(r, "run"))
	return answerJSON(w, http.StatusOK, body, err)
}

// runToken makes the token of a run that is to go by a name of its own.
func (s *Server) runToken(w http.ResponseWriter, r *http.Request, a visit) error {
	var body struct {
		Agent string `json:"agent"`
	}
	if _, err := read(w, r, &body); err != nil {
		return err
	}
	made, err := s.o.Operator.RunToken(r.Context(), a.who, body.Agent)
	return answerJSON(w, http.StatusCreated, made, err)
}

func (s *Server) prolong(w http.ResponseWriter, r *http.Request, a visit) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	left, err := s.o.Operator.Prolong(r.Context(), a.who, chi.URLParam(r, "id"))
	return answerJSON(w, http.StatusOK, map[string]string{"ttl": left.String()}, err)
}

// lend makes the connection of a request one of the proxy's.
func (s *Server) lend(w http.ResponseWriter, r *http.Request, a visit) error {
	unattended := r.Header.Values(fieldUnattended)
	via := &runtime.Via{Run: r.Header.Get(fieldRun), Address: r.Header.Get(fieldAddress), Unattended: len(unattended) > 0}
	address, err := netip.ParseAddrPort(via.Address)
	switch {
	case r.Method != http.MethodGet || !strings.EqualFold(r.Header.Get("Upgrade"), upgradeTo) || !strings.EqualFold(r.Header.Get("Connection"), "upgrade") || r.ContentLength != 0:
		return invalid("kimbap run --server does it", "this page is for a kimbap that borrows the proxy: Upgrade: "+upgradeTo)
	case err != nil || !address.Addr().IsLoopback():
		return invalid("kimbap run --server does it", fieldAddress+" is no address of its own machine")
	case !nameOfRun(via.Run):
		return invalid("write letters and digits", fieldRun+" names no run")
	case via.Unattended && !slices.Equal(unattended, []string{"true"}):
		return invalid("write true, or leave it out", fieldUnattended+" is not understood")
	}
	conn, err := s.hijacked(w, via)
	if err != nil || conn == nil {
		return err
	}
	caller := runtime.Caller{Token: a.caller.Token, RequireToken: true, Via: via}
	s.o.Lender.Take(conn, a.who, caller)
	return nil
}

func nameOfRun(text string) bool {
	return text != "" && len(text) <= maxRun && strings.Trim(text, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

// hijacked answers 101 and takes the connection out of the server. It is no longer
// one of those that the server counts; nil is one that went away meanwhile.
func (s *Server) hijacked(w http.ResponseWriter, via *runtime.Via) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	if buffered.Reader.Buffered() > 0 { // it did not wait for the answer, so it is none of ours
		_ = conn.Close()
		return nil, nil
	}
	answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + upgradeTo + "\r\n"
	if via.Unattended {
		answer += fieldUnattended + ": true\r\n"
	}
	_ = conn.SetDeadline(time.Now().Add(upgradeLimit))
	_, err = conn.Write([]byte(answer + "\r\n"))
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, nil
	}
	if c, ok := conn.(*socket.Conn); ok {
		conn = c.Leave()
	}
	return conn, nil
}
