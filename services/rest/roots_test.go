package rest_test

import (
	"crypto/x509"
	"sync/atomic"
	"testing"

	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest"
	"github.com/kimbap-run/kimbap/services/servicestest"
)

// twoRoots has some roots at once and others for who asks.
type twoRoots struct {
	first, all *x509.CertPool
	asked      atomic.Int64 // for all
}

func (r *twoRoots) First() (*x509.CertPool, bool) {
	if r.asked.Load() > 0 {
		return r.all, true
	}
	return r.first, false
}

func (r *twoRoots) All() *x509.CertPool {
	r.asked.Add(1)
	return r.all
}

func TestRootsThatAreQuickToHaveComeFirst(t *testing.T) {
	none := x509.NewCertPool()
	run := func(choose func(its *x509.CertPool) *twoRoots) (*rig, *twoRoots) {
		var roots *twoRoots
		r := newRig(t, servicestest.Options{}, func(o *rest.Options) {
			roots = choose(o.TLS.RootCAs)
			o.TLS.RootCAs, o.Roots = none, roots
		})
		return r, roots
	}
	quick, roots := run(func(its *x509.CertPool) *twoRoots { return &twoRoots{first: its, all: none} })
	quick.must(t, quick.call("GET", "/"))
	equal(t, "how often all were asked for", roots.asked.Load(), 0)
	equal(t, "connections", quick.Connections(), 1)

	slow, roots := run(func(its *x509.CertPool) *twoRoots { return &twoRoots{first: none, all: its} })
	slow.must(t, slow.call("GET", "/"))
	slow.backend.Close()
	slow.must(t, slow.call("GET", "/"))
	equal(t, "how often all were asked for", roots.asked.Load(), 1)
	equal(t, "connections: two for the first request, one for the second", slow.Connections(), 3)
	equal(t, "requests", len(slow.Requests()), 2)

	foreign, roots := run(func(*x509.CertPool) *twoRoots { return &twoRoots{first: none, all: none} })
	sent(t, foreign.refused(t, foreign.call("GET", "/"), runtime.CodeUpstreamTLS, ""), false)
	equal(t, "how often all were asked for", roots.asked.Load(), 1)
	equal(t, "requests", len(foreign.Requests()), 0)
}
