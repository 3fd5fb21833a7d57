package proxy

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/runtime/recognised"
)

// asked is what a request asks for, in the words of its head.
type asked struct {
	method, target string
	host           string // the Host field; "" when there is none
	scheme         string // of HTTP/2; "": HTTP/1.1 says none inside a tunnel
}

// exchange serves one request that net/http has read: absolute-form on the
// listener, any form inside a tunnel.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, c *conn) {
	caller := s.caller(c, r.Header)
	if c.tunnel != nil {
		caller = c.tunnel.caller
	}
	req := s.newRequest(caller, runtime.Target{Method: r.Method})
	out := newResponder(w, r, s.o.Limits)
	req.Raw, out.body = s.raw(w, r, c)
	req.Raw.Head = c.head
	defer out.body.finish(false) // also when something panics
	ctx := r.Context()
	if out.body != nil {
		var stop func()
		ctx, stop = blamed(ctx, c.guard.blame)
		defer stop()
	}
	p := passage{s: s, c: c, req: req}
	defer p.leave() // also when enter panics
	out.upgrading = p.enter(ctx, asked{method: r.Method, target: r.RequestURI, host: r.Host})
	out.finish(s.send(ctx, req, out))
}

// seat gives a request that asks for an upgrade its place: that of its tunnel,
// or on the listener one of its own, which the caller must leave.
func (s *Server) seat(ctx context.Context, c *conn, req *runtime.Request) (*place, *runtime.Error) {
	if c.tunnel != nil {
		s.keep(c.tunnel.seat, req)
		return c.tunnel.seat, nil
	}
	who, err := s.o.Identity.Identify(ctx, req.Caller)
	if err != nil {
		return nil, runtime.AsError(err)
	}
	seat, full := s.tunnels.enter(ctx, req.Caller, who, raw)
	if full == nil {
		s.keep(seat, req)
	}
	return seat, full
}

// refuseHead answers a request whose head the guard refused. A caller who could
// not be identified, since there is no head to find a token in, is told the
// same: what was wrong with its bytes.
func (s *Server) refuseHead(w http.ResponseWriter, r *http.Request, c *conn) {
	refusal := c.guard.refused()
	if refusal == nil {
		refusal = badHead("the method is reserved")
	}
	out := newResponder(w, r, s.o.Limits)
	out.finish(s.sendRefused(r.Context(), c, refusal, out))
}

// sendRefused records a head that was refused and returns what its sender is
// told.
func (s *Server) sendRefused(ctx context.Context, c *conn, refusal *runtime.Error, out answer) error {
	caller, target := s.caller(c, nil), runtime.Target{}
	if c.tunnel != nil {
		caller, target.Scheme, target.Authority = c.tunnel.caller, c.tunnel.scheme, c.tunnel.authority
	}
	req := s.newRequest(caller, target)
	req.Refusal = refusal
	err := runtime.AsError(s.send(ctx, req, out))
	if err == nil || unknown(err) {
		named := *req.Refusal
		named.RequestID = req.ID
		err = &named
	}
	return err
}

// newRequest begins a request of this surface.
func (s *Server) newRequest(caller runtime.Caller, target runtime.Target) *runtime.Request {
	req := &runtime.Request{
		Surface: runtime.SurfaceProxy, Caller: caller, Target: target,
		Received: s.o.Clock(), Unattended: s.o.Unattended, Hold: runtime.HoldAuto,
		Results: s.results,
	}
	if via := caller.Via; via != nil {
		req.Unattended = req.Unattended || via.Unattended
		req.Results = func(id string) string { return "http://" + via.Address + approvalsPath + id }
	}
	return req
}

// route finds out where the request goes, and refuses what names two places.
func (s *Server) route(a asked, c *conn, req *runtime.Request) *runtime.Error {
	if c.tunnel != nil {
		req.Target.Scheme, req.Target.Authority = c.tunnel.scheme, c.tunnel.authority
	}
	t, err := splitTarget(a.method, a.target)
	if a.method == http.MethodConnect || a.method == http.MethodTrace {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonMethodNotAllowed, Stage: runtime.StageSurface,
			Msg: fmt.Sprintf("%s is not passed on", a.method), Hint: "use another method",
		}
	}
	if err != nil {
		return runtime.AsError(err)
	}
	req.Target.Path = t.path
	if t.path != a.target {
		req.Raw.Changed = append(req.Raw.Changed, runtime.Change{Kind: runtime.ChangeTarget})
	}
	if c.tunnel == nil {
		return direct(t, req)
	}
	if a.scheme != "" && a.scheme != c.tunnel.scheme {
		return misdirected("the tunnel", c.tunnel.scheme, "the request", "another scheme")
	}
	if t.scheme != "" && t.scheme != c.tunnel.scheme {
		return misdirected("the tunnel", c.tunnel.scheme+"://"+c.tunnel.authority, "the target", t.scheme+"://"+t.authority)
	}
	if a.host == "" {
		return badHead("there is no Host field")
	}
	port := runtime.DefaultPort(c.tunnel.scheme)
	if spells(a.host, c.tunnel.authority, port) {
		return nil
	}
	host, err := classifier.CanonicalAuthority(a.host, port)
	if err != nil {
		return invalidHost("the Host field is not a valid host and port", a.host, err)
	}
	if host != c.tunnel.authority {
		return misdirected("the tunnel", c.tunnel.authority, "the request", host)
	}
	return nil
}

// direct routes an absolute-form request on the listener.
func direct(t target, req *runtime.Request) *runtime.Error {
	req.Target.Scheme, req.Target.Authority = t.scheme, t.authority
	if t.scheme == "http" {
		return nil
	}
	return withoutConnect("the proxy takes http URLs; https goes through CONNECT")
}

// recognise fills in the action and its arguments. On a host of a service the
// target must be unambiguous and an action must cover it; other hosts are
// net.pass, or net.tunnel where any protocol could follow.
func (s *Server) recognise(ctx context.Context, req *runtime.Request, owner string) *runtime.Error {
	table, t := s.o.Table(), &req.Target
	switch table.Host(t.Scheme, t.Authority) {
	case classifier.HostOwned:
	case classifier.HostForeign:
		req.Action = runtime.ForeignAction(t.Authority, req.Raw)
		return nil
	default:
		return &runtime.Error{
			Code: runtime.CodeForbidden, Reason: runtime.ReasonInsecureScheme, Stage: runtime.StageSurface,
			Msg:  fmt.Sprintf("%s belongs to a service that is not reached over %s", t.Authority, t.Scheme),
			Hint: "use https; kimbap sends no credential over cleartext and does not upgrade requests",
		}
	}
	in := classifier.Input{Scheme: t.Scheme, Authority: t.Authority, Method: t.Method, Target: t.Path, Header: req.Raw.Header}
	match, err := table.Match(in)
	if err == nil && (match.NeedBody || match.Action != "" && hasParameters(req)) {
		match, err = s.matchBody(ctx, req, owner, in)
	}
	if err != nil {
		return recognised.Refusal(err)
	}
	if match.Action == "" {
		return recognised.None(t.Authority, t.Path)
	}
	recognised.As(req, match)
	if match.Push && owner != "" {
		return s.readPush(req)
	}
	return s.checkOverride(ctx, req, owner, match.Words)
}

// caller is who the client says it is. A Proxy-Authorization we cannot read, or
// two of them, are a token that nobody knows, never an anonymous caller.
func (s *Server) caller(c *conn, h http.Header) runtime.Caller {
	if c.known != nil {
		return *c.known
	}
	caller := runtime.Caller{Peer: c.peer, Source: c.source, RequireToken: s.o.RequireToken}
	shown := h["Proxy-Authorization"]
	if len(shown) == 0 {
		if c.peer.Owner {
			caller.Token = s.o.DefaultToken
		}
		return caller
	}
	caller.RequireToken = true
	if len(shown) == 1 {
		caller.Token = runtime.NewSecret(credentialToken(shown[0]))
	}
	return caller
}

// credentialToken reads a token out of credentials (RFC 9110 section 11.4): Bearer, or Basic
// with the token as password or, as in http://TOKEN@proxy, as user.
func credentialToken(value string) string {
	scheme, rest, _ := strings.Cut(value, " ")
	rest = strings.Trim(rest, " ")
	if strings.EqualFold(scheme, "Bearer") {
		return rest
	}
	if !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	plain, err := base64.StdEncoding.DecodeString(rest)
	if err != nil {
		return ""
	}
	user, password, _ := strings.Cut(string(plain), ":")
	if password == "" || strings.HasPrefix(user, runtime.TokenPrefix) && !strings.HasPrefix(password, runtime.TokenPrefix) {
		return user
	}
	return password
}

// raw is the client's request as the backend may send it.
func (s *Server) raw(w http.ResponseWriter, r *http.Request, c *conn) (*runtime.Raw, *body) {
	raw := &runtime.Raw{Proto: r.Proto, Header: maps.Clone(r.Header), ContentLength: r.ContentLength}
	raw.Changed = endToEnd(raw.Header)
	if r.Body == nil || r.Body == http.NoBody {
		raw.ContentLength = 0
		return raw, nil
	}
	b := &body{src: r.Body, guard: c.guard, control: http.NewResponseController(w), idle: s.o.Limits.IdleTimeout}
	raw.Body = b
	for name := range r.Trailer {
		raw.Announced = append(raw.Announced, name)
	}
	slices.Sort(raw.Announced)
	raw.Trailer = func() http.Header { return r.Trailer.Clone() }
	return raw, b
}

// endToEnd takes from h the fields that are not for the upstream, and says
// which. Of the hop-by-hop ones an upgrade stays, but not to h2c: what follows
// it could not be judged; and of TE only "trailers".
func endToEnd(h http.Header) (changed []runtime.Change) {
	named := http1.List(h["Connection"])
	te, asked := h["Te"], h["Upgrade"]
	for name := range h {
		kind := removal(name, named)
		if kind != "" {
			changed = append(changed, runtime.Change{Kind: kind, Name: name})
			delete(h, name)
		}
	}
	if len(te) > 0 && names(http1.List(te), "trailers") {
		h["Te"] = []string{"trailers"}
	}
	if len(asked) == 1 && names(named, "upgrade") && !names(http1.List(asked), "h2c") {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, slices.Clone(asked)
	}
	return changed
}

// removal says why a field is not for the upstream, "" when it is. Named are
// the fields that Connection names.
func removal(name string, named []string) runtime.ChangeKind {
	hop := slices.Contains(hopFields[:], name)
	switch {
	case name == "Proxy-Authorization", hop && strings.HasPrefix(name, "Proxy-"):
		return runtime.ChangeProxy
	case hop, name == "Te", name == "Http2-Settings":
		return runtime.ChangeHop
	case names(named, name):
		return runtime.ChangeNamed
	}
	return ""
}

// names reports whether a list has a name, in any case.
func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(n string) bool { return strings.EqualFold(n, name) })
}
