package proxy

import (
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
