package proxy

import (
	"context"
	"errors"

	"github.com/kimbap-run/kimbap/runtime"
)

// passage is one request's way from its head to the pipeline, the same for all
// engines: what it takes of the limits, where it goes, which action it is.
type passage struct {
	s     *Server
	c     *conn
	req   *runtime.Request
	owner string   // who it is counted for; "" while it is not
	held  *holding // of its body, nil without one
	own   *place   // of an upgrade on the listener, which has no tunnel's
}

// enter fills the request in, or in Refusal why it goes no further. The place
// is that of a request that asks for an upgrade, else nil. The caller must call
// leave when the request has ended.
func (p *passage) enter(ctx context.Context, a asked) (upgrading *place) {
	s, c, req := p.s, p.c, p.req
	s.tellWhere(c, req)
	var full *runtime.Error
	if p.owner, full = s.begin(ctx, c, req); p.owner != "" {
		if body, ok := req.Raw.Body.(arriving); ok {
			p.held = &holding{of: s.admission, done: ctx, owner: p.owner, body: body}
			req.Raw.Room = p.held.room
		}
	}
	nobody := full != nil && full.Stage == runtime.StageIdentify
	if req.Refusal = s.route(a, c, req); req.Refusal == nil && !nobody {
		req.Refusal = full
	}
	if c.tunnel == nil {
		c.plainly.aim(req.Target)
	}
	if req.Refusal == nil {
		req.Refusal = s.locked(req.Target)
	}
	if req.Refusal == nil && len(req.Raw.Header["Upgrade"]) > 0 {
		upgrading, req.Refusal = s.seat(ctx, c, req)
		if c.tunnel == nil {
			p.own = upgrading
		}
	}
	if req.Refusal == nil {
		if req.Refusal = s.recognise(ctx, req, p.owner); req.Refusal == nil {
			s.withhold(req, upgrading)
			s.readable(ctx, req, p.owner)
		}
	}
	if nobody && req.Refusal == nil { // now that the record has what it asked for
		req.Refusal = full
	}
	if c.tunnel != nil && req.Refusal == nil && !req.Action.Foreign() {
		c.tunnel.seat.served.Store(true)
	}
	return upgrading
}

// withhold makes a request for an upgrade one without, where it would be net.tunnel and
// policy lets it be none: it is an offer (RFC 9110 section 7.8), and some clients make
// that of TLS with each request. It is none either where the host may not be asked at all,
// as in a tunnel, which is net.pass before it is net.tunnel: an offer that nobody takes up
// is no way around that. The backend upgrades net.pass to WebSocket alone.
func (s *Server) withhold(req *runtime.Request, upgrading *place) {
	if upgrading == nil || req.Action != runtime.ActionTunnel || runtime.RawPort(req.Target.Authority) {
		return
	}
	without := *req
	without.Action = runtime.ActionPass
	if s.o.Pipeline.Judge(&upgrading.who, req) == runtime.EffectDeny || s.o.Pipeline.Judge(&upgrading.who, &without) != runtime.EffectAllow {
		req.Action = runtime.ActionPass
	}
}

// leave gives back what the request took.
func (p *passage) leave() {
	if p.own != nil {
		p.own.leave()
	}
	if p.held != nil {
		p.held.release()
	}
	if p.owner != "" {
		p.s.done(p.c, p.owner)
	}
}

// errCloses is that a request came while its tunnel was being closed: it had never begun.
var errCloses = errors.New("the tunnel closes")

// begin waits until a request may run and returns whose it is, for done. A
// caller that cannot be identified owns nothing and is not counted, so it is turned
// away, of [runtime.StageIdentify], even if the pipeline can identify it a moment later.
func (s *Server) begin(ctx context.Context, c *conn, req *runtime.Request) (owner string, full *runtime.Error) {
	if c.tunnel == nil {
		who, err := s.o.Identity.Identify(ctx, req.Caller)
		if err != nil {
			e := *runtime.AsError(err)
			e.Stage = runtime.StageIdentify
			return "", &e
		}
		owner = who.Owner()
	} else if owner = c.tunnel.seat.owner; !c.tunnel.seat.begin() {
		c.tunnel.seat.end()
		return "", s.tooLate()
	}
	if full = s.admission.enter(ctx, owner); full != nil {
		if c.tunnel != nil {
			c.tunnel.seat.end()
		}
		return "", full
	}
	if c.tunnel == nil {
		c.plainly.enter(owner, req.Caller)
	}
	return owner, nil
}

// tooLate is why a tunnel takes no request any more.
func (s *Server) tooLate() *runtime.Error {
	e := runtime.Error{Code: runtime.CodeCanceled, Stage: runtime.StageSurface, Msg: "the tunnel had no request for long and was closed to make room for another"}
	if s.o.Locked != nil {
		if locked := s.o.Locked(); locked != nil {
			e = *locked
		}
	}
	e.Err = errors.Join(errCloses, e.Err)
	return &e
}

// done says that the request which begin let in has ended.
func (s *Server) done(c *conn, owner string) {
	s.admission.leave(owner)
	if c.tunnel == nil {
		c.plainly.leave()
	} else {
		c.tunnel.seat.end()
	}
}
