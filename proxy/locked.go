package proxy

import (
	"math"

	"github.com/kimbap-run/kimbap/classifier"
	"github.com/kimbap-run/kimbap/runtime"
)

// locked refuses what leads to a host of a service, or into a tunnel that would
// be opened, while no key can be used: there is no certificate to open it with
// and no credential to add. Everything else passes.
func (s *Server) locked(t runtime.Target) *runtime.Error {
	if s.o.Locked == nil {
		return nil
	}
	refusal := s.o.Locked()
	if refusal == nil {
		return nil
	}
	if t.Scheme == "tcp" && s.intercepts(t.Authority) ||
		t.Scheme != "tcp" && s.o.Table().Host(t.Scheme, t.Authority) != classifier.HostForeign {
		return refusal
	}
	return nil
}

// endLocked ends what leads to hosts of services once the vault is locked: tunnels
// that were opened with the key of the authority and rest, and upgraded connections
// and answers that flow, whose credential was added before. A request that is inside
// has time to be refused with the reason.
func (s *Server) endLocked() {
	if s.o.Locked == nil || s.o.Locked() == nil {
		return
	}
	s.tunnels.closeThose(func(p *place) bool {
		return p.rests() || p.served.Load() && (p.upgraded || p.flows()) ||
			p.upgraded && p.judged != nil && s.locked(p.judged.req.Target) != nil
	})
	s.visitors.cut(func(_ string, target runtime.Target) bool { return s.locked(target) != nil })
}

// rests reports whether this is an opened tunnel without a request inside, and then
// keeps further ones out: one that came now would be cut without an answer.
func (p *place) rests() bool {
	return p.files == intercepted && !p.upgraded && p.running.CompareAndSwap(0, math.MinInt32/2)
}
