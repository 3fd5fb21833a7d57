package proxy

import (
	"context"

	"github.com/kimbap-run/kimbap/runtime"
)

// judged is what let raw bytes pass: the facts of a request, kept so that they
// can be judged again when services or policy change. It is immutable.
type judged struct {
	who    runtime.Principal
	req    runtime.Request // without its body
	effect runtime.Effect  // when it was kept
}

// keep leaves the facts of a request that may make seat a raw tunnel. A reload
// from here on counts, so it comes before the request is looked at.
func (s *Server) keep(seat *place, req *runtime.Request) {
	j := &judged{who: seat.who, req: *req}
	j.req.Raw = &runtime.Raw{Proto: req.Raw.Proto, Header: req.Raw.Header}
	j.effect = s.effect(j)
	seat.keep(j)
}

// keep replaces what a reload asks about; with nil it asks nothing.
func (p *place) keep(j *judged) {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.judged, p.doomed = j, false
}

// effect judges the facts by the services and policy in force.
func (s *Server) effect(j *judged) runtime.Effect {
	req := j.req
	if req.Target.Scheme == "tcp" {
		if s.intercepts(req.Target.Authority) {
			return runtime.EffectDeny
		}
	} else if err := s.recognise(context.Background(), &req, ""); err != nil {
		return runtime.EffectDeny
	}
	return s.o.Pipeline.Judge(&j.who, &req)
}

// stands reports whether what passed then may pass now. A person's yes stays
// one; what was let through without asking does not, where asking is the rule now.
func (s *Server) stands(j *judged) bool {
	now := s.effect(j)
	return now == runtime.EffectAllow || now == runtime.EffectAsk && j.effect == runtime.EffectAsk
}

// closeFallen closes the raw tunnels whose facts do not stand, and marks those
// that are about to become one. It asks without the lock: policy takes time.
func (t *tunnels) closeFallen(stands func(*judged) bool) {
	fallen := map[*place]*judged{}
	t.mu.Lock()
	for p := range t.open {
		if p.judged != nil {
			fallen[p] = p.judged
		}
	}
	t.mu.Unlock()
	for p, j := range fallen {
		if stands(j) {
			delete(fallen, p)
		}
	}
	t.closeThose(func(p *place) bool {
		if j := fallen[p]; j == nil || j != p.judged { // judged anew in the meantime
			return false
		}
		p.doomed = true
		return p.spliced || p.upgraded
	})
}
