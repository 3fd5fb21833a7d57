package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"

	"github.com/elazarl/goproxy"

	"github.com/kimbap-run/kimbap/runtime"
)

// newFront makes the goproxy server that dispatches CONNECT to its hijack hook
// and requests to ourselves to its non-proxy handler. Everything in it that
// could reach out (its transport, the proxies of the environment, its
// certificate) is replaced by a refusal.
func (s *Server) newFront() *goproxy.ProxyHttpServer {
	front := goproxy.NewProxyHttpServer()
	refuse := func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("goproxy may not dial")
	}
	front.Tr = &http.Transport{DialContext: refuse, DialTLSContext: refuse, DisableKeepAlives: true}
	front.ConnectDial, front.ConnectDialWithReq = nil, nil
	front.Logger = log.New(io.Discard, "", 0)
	front.NonproxyHandler = http.HandlerFunc(s.self)
	hijack := &goproxy.ConnectAction{
		Action: goproxy.ConnectHijack,
		Hijack: func(r *http.Request, client net.Conn, _ *goproxy.ProxyCtx) {
			if t, ok := client.(*untaken); ok {
				s.connect(t.w, r)
			}
		},
		TLSConfig: nil,
	}
	front.OnRequest().HandleConnect(goproxy.FuncHttpsHandler(
		func(host string, _ *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) { return hijack, host }))
	return front
}

// takeover is the writer goproxy hijacks. It does not give the connection away
// yet: goproxy would lose the bytes that came with the CONNECT, and a refusal
// could not be an ordinary answer on a connection that stays open.
type takeover struct{ http.ResponseWriter }

// Hijack implements [http.Hijacker].
func (t *takeover) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return &untaken{w: t.ResponseWriter}, nil, nil
}

// untaken carries the writer of a CONNECT through goproxy to our hook.
type untaken struct {
	net.Conn
	w http.ResponseWriter
}

// connect serves one CONNECT on the listener.
func (s *Server) connect(w http.ResponseWriter, r *http.Request) {
	c := connOf(r.Context())
	caller := s.caller(c, r.Header)
	t, err := splitTarget(http.MethodConnect, r.RequestURI)
	req := s.newRequest(caller, runtime.Target{Scheme: "tcp", Authority: t.authority, Method: r.Method})
	req.Raw = &runtime.Raw{Proto: r.Proto, Header: maps.Clone(r.Header)}
	endToEnd(req.Raw.Header)
	s.tellWhere(c, req)
	req.Action = runtime.ActionPass
	if err != nil {
		req.Refusal = runtime.AsError(err)
		s.refuse(w, r, req)
		return
	}
	principal, err := s.o.Identity.Identify(r.Context(), caller)
	if err != nil {
		req.Refusal = runtime.AsError(err)
		s.refuse(w, r, req)
		return
	}
	if req.Refusal = s.locked(req.Target); req.Refusal != nil {
		req.Action = "" // which one it would have been, nobody can see
		s.refuse(w, r, req)
		return
	}
	if runtime.RawPort(t.authority) { // from the start
		req.Action = runtime.ActionTunnel
	}
	files, opens := int64(raw), s.intercepts(t.authority)
	if opens {
		files = intercepted
	}
	seat, full := s.tunnels.enter(r.Context(), caller, principal, files)
	if full != nil {
		req.Refusal = full
		s.refuse(w, r, req)
		return
	}
	s.keep(seat, req) // before anything is looked up, so that no reload falls between
	if s.intercepts(t.authority) != opens {
		seat.leave() // one came while it waited for its place
		s.connect(w, r)
		return
	}
	if opens {
		if err := s.permits(t.authority); err != nil {
			seat.leave()
			req.Refusal = runtime.AsError(err)
			s.refuse(w, r, req)
			return
		}
		seat.keep(nil)
		s.intercept(w, r, seat, &tunnel{authority: t.authority, caller: caller, seat: seat})
		return
	}
	defer seat.leave()
	s.pass(w, r, req, seat)
}

// pass sends a CONNECT to a foreign host through the pipeline. When what the
// client then says is neither TLS nor HTTP, the tunnel backend hands the two
// connections back and they are judged again, as net.tunnel. Where that is refused, a
// client that says nothing may only be far away, and has longer.
func (s *Server) pass(w http.ResponseWriter, r *http.Request, req *runtime.Request, seat *place) {
	out := newResponder(w, r, s.o.Limits)
	out.seat = seat
	again := s.newRequest(req.Caller, req.Target)
	again.Action, again.Raw, again.Results = runtime.ActionTunnel, req.Raw, req.Results
	out.mustSpeak = func() bool { return s.effect(&judged{who: seat.who, req: *again}) != runtime.EffectAllow }
	err := s.send(r.Context(), req, out)
	if out.dialled == nil {
		out.finish(err)
		spurn(r, err)
		return
	}
	again.Received = s.o.Clock()
	s.keep(seat, again)
	_ = s.send(r.Context(), again, out)
	if left := out.dialled; left != nil { // refused: nobody took them
		left.close()
	}
}

// refuse sends a request that carries a Refusal through the pipeline, which
// records it, and answers with the error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, req *runtime.Request) {
	out := newResponder(w, r, s.o.Limits)
	err := s.send(r.Context(), req, out)
	out.finish(err)
	spurn(r, err)
}

// spurn has the connection of a refused CONNECT end soon, unless its client was only asked
// for a token, which some take from a person.
func spurn(r *http.Request, err error) {
	if err != nil && runtime.AsError(err).Code != runtime.CodeUnauthenticated {
		connOf(r.Context()).spurned = true
	}
}
