package proxy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// exchange serves one request: absolute-form on the listener, any form inside
// a tunnel.
func (s *Server) exchange(w http.ResponseWriter, r *http.Request, c *conn) {
	caller := s.caller(c.peer, r.Header)
	if c.tunnel != nil {
		caller = c.tunnel.caller
	}
	req := s.newRequest(caller, runtime.Target{Method: r.Method})
	req.Raw = s.raw(w, r)
	out := newResponder(w, r, s.o.Limits)
	if req.Refusal = s.route(r, c, req); req.Refusal == nil && len(req.Raw.Header["Upgrade"]) > 0 {
		out.upgrading, req.Refusal = s.seat(r.Context(), c, req)
	}
	if c.tunnel == nil && out.upgrading != nil {
		defer out.upgrading.leave()
	}
	if req.Refusal == nil {
		req.Refusal = s.recognise(r.Context(), req)
	}
	out.finish(s.send(r.Context(), req, out))
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
	seat, full := s.tunnels.enter(req.Caller, who)
	if full == nil {
		s.keep(seat, req)
	}
	return seat, full
}

// refuseHead answers a request whose head the guard refused. A caller who could
// not be identified, since there is no head to find a token in, is told the
// same: what was wrong with its bytes.
func (s *Server) refuseHead(w http.ResponseWriter, r *http.Request, c *conn) {
	caller, target := s.caller(c.peer, nil), runtime.Target{}
	if c.tunnel != nil {
		caller, target.Scheme, target.Authority = c.tunnel.caller, c.tunnel.scheme, c.tunnel.authority
	}
	req := s.newRequest(caller, target)
	if req.Refusal = c.guard.refused(); req.Refusal == nil {
		req.Refusal = badHead("the method is reserved")
	}
	out := newResponder(w, r, s.o.Limits)
	err := runtime.AsError(s.send(r.Context(), req, out))
	if err == nil || err.Code == runtime.CodeUnauthenticated {
		named := *req.Refusal
		named.RequestID = req.ID
		err = &named
	}
	out.finish(err)
}

// newRequest begins a request of this surface.
func (s *Server) newRequest(caller runtime.Caller, target runtime.Target) *runtime.Request {
	return &runtime.Request{
		Surface: runtime.SurfaceProxy, Caller: caller, Target: target,
		Received: s.o.Clock(), Unattended: s.o.Unattended, Hold: runtime.HoldAuto,
	}
}

// route finds out where the request goes, and refuses what names two places.
func (s *Server) route(r *http.Request, c *conn, req *runtime.Request) *runtime.Error {
	if c.tunnel != nil {
		req.Target.Scheme, req.Target.Authority = c.tunnel.scheme, c.tunnel.authority
	}
	if r.ProtoMajor == 2 { // of HTTP/1.1 the guard has
		if err := checkStream(r, s.o.Limits); err != nil {
			return err
		}
	}
	t, err := splitTarget(r.Method, r.RequestURI)
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		return &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonMethodNotAllowed, Stage: runtime.StageSurface,
			Msg: fmt.Sprintf("%s is not passed on", r.Method), Hint: "use another method",
		}
	}
	if err != nil {
		return runtime.AsError(err)
	}
	req.Target.Path = t.path
	if c.tunnel == nil {
		return direct(t, req)
	}
	if r.ProtoMajor == 2 && (r.TLS != nil) != (c.tunnel.scheme == "https") {
		return misdirected("the tunnel", c.tunnel.scheme, "the request", "another scheme")
	}
	if t.scheme != "" && t.scheme != c.tunnel.scheme {
		return misdirected("the tunnel", c.tunnel.scheme+"://"+c.tunnel.authority, "the target", t.scheme+"://"+t.authority)
	}
	if r.Host == "" {
		return badHead("there is no Host field")
	}
	host, err := classifier.CanonicalAuthority(r.Host, defaultPorts[c.tunnel.scheme])
	if err != nil {
		return invalidHost("the Host field is not a valid host and port", err)
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
	return &runtime.Error{
		Code: runtime.CodeInvalidInput, Reason: runtime.ReasonInvalidTarget, Stage: runtime.StageSurface,
		Msg: "the proxy takes http URLs; https goes through CONNECT", Hint: "use CONNECT for https URLs",
	}
}

// recognise fills in the action and its arguments. On a host of a service the
// target must be unambiguous and an action must cover it; other hosts are
// net.pass.
func (s *Server) recognise(ctx context.Context, req *runtime.Request) *runtime.Error {
	table, t := s.o.Table(), &req.Target
	switch table.Host(t.Scheme, t.Authority) {
	case classifier.HostOwned:
	case classifier.HostForeign:
		req.Action = runtime.ActionPass
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
	if err == nil && match.NeedBody {
		if match, err = s.matchBody(ctx, req, table, in); err == nil && match.NeedBody {
			err = errors.New("the classifier asked for a body it was given")
		}
	}
	if err != nil {
		return classified(err)
	}
	if match.Action == "" {
		return &runtime.Error{
			Code: runtime.CodeUnknownAction, Reason: runtime.ReasonUnmatched, Stage: runtime.StageSurface,
			Msg:  fmt.Sprintf("%s belongs to a service, but none of its actions covers this request", t.Authority),
			Hint: "see which requests are covered with `kimbap list`, or add an action to the service file",
		}
	}
	req.Action, req.Args, req.Query = runtime.Ref(match.Action), match.Args, match.Query
	return nil
}

// matchBody reads the body and classifies again. A caller the pipeline will
// turn away anyway is not read from.
func (s *Server) matchBody(ctx context.Context, req *runtime.Request, table Table, in classifier.Input) (classifier.Match, error) {
	if _, err := s.o.Identity.Identify(ctx, req.Caller); err != nil {
		return classifier.Match{}, err
	}
	raw, err := req.Raw.Buffer(s.o.Limits.BodyBytes)
	if errors.Is(err, runtime.ErrBodyTooLarge) {
		return classifier.Match{}, &runtime.Error{
			Code: runtime.CodeInvalidInput, Reason: runtime.ReasonBodyTooLarge, Stage: runtime.StageSurface,
			Msg:  fmt.Sprintf("this request can only be recognised by its body, which is over %d bytes", s.o.Limits.BodyBytes),
			Hint: "send a smaller body",
		}
	}
	if err != nil {
		return classifier.Match{}, &runtime.Error{Code: runtime.CodeCanceled, Stage: runtime.StageSurface, Msg: "the request body ended early", Err: err}
	}
	header := req.Raw.Header
	for _, name := range []string{"Content-Type", "Content-Encoding"} {
		if len(header[name]) > 1 {
			return classifier.Match{}, ambiguous("", "the field "+name+" is there more than once")
		}
	}
	in.Body, err = classifier.ParseBody(header.Get("Content-Type"), header.Get("Content-Encoding"), raw)
	if err != nil {
		return classifier.Match{}, err
	}
	return table.Match(in)
}

// caller is who the client says it is. A Proxy-Authorization we cannot read, or
// two of them, are a token that nobody knows, never an anonymous caller.
func (s *Server) caller(peer runtime.Peer, h http.Header) runtime.Caller {
	caller := runtime.Caller{Peer: peer, RequireToken: s.o.RequireToken}
	shown := h["Proxy-Authorization"]
	if len(shown) == 0 {
		if peer.Owner {
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

// credentialToken reads a token out of Proxy-Authorization: Bearer, or Basic
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
	if password == "" || strings.HasPrefix(user, tokenPrefix) && !strings.HasPrefix(password, tokenPrefix) {
		return user
	}
	return password
}

// tokenPrefix begins every token of ours.
const tokenPrefix = "kmb_"

// raw is the client's request as the backend may send it.
func (s *Server) raw(w http.ResponseWriter, r *http.Request) *runtime.Raw {
	raw := &runtime.Raw{Proto: r.Proto, Header: endToEnd(r.Header), ContentLength: r.ContentLength}
	if r.Body == nil || r.Body == http.NoBody {
		raw.ContentLength = 0
		return raw
	}
	raw.Body = &body{Reader: r.Body, control: http.NewResponseController(w), idle: s.o.Limits.IdleTimeout}
	for name := range r.Trailer {
		raw.Announced = append(raw.Announced, name)
	}
	slices.Sort(raw.Announced)
	raw.Trailer = func() http.Header { return r.Trailer.Clone() }
	return raw
}

// body reads a request body with a deadline that moves with it.
type body struct {
	io.Reader
	control *http.ResponseController
	idle    time.Duration
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
	n, err := b.Reader.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// endToEnd copies the fields of a request that are for the upstream. Of the
// hop-by-hop ones an upgrade stays, but not to h2c: what follows it could not
// be judged; and of TE only "trailers".
func endToEnd(h http.Header) http.Header {
	out := make(http.Header, len(h))
	copyFields(out, h)
	out.Del("Proxy-Authorization")
	out.Del("Te")
	out.Del("Http2-Settings")
	if slices.Contains(splitList(h["Te"]), "trailers") {
		out.Set("Te", "trailers")
	}
	asked := h["Upgrade"]
	wanted := slices.ContainsFunc(splitList(h["Connection"]), func(n string) bool { return strings.EqualFold(n, "upgrade") })
	if wanted && len(asked) == 1 && !strings.EqualFold(asked[0], "h2c") {
		out["Connection"], out["Upgrade"] = []string{"Upgrade"}, slices.Clone(asked)
	}
	return out
}
