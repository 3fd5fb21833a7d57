package app

import (
	"runtime/debug"

	"github.com/kimbap-run/kimbap/proxy"
)

// descriptors is how the limit of the process is shared out, so that however
// many connections there are, the ledger, the database and the connections to
// upstreams find a descriptor. A zero field is not bounded.
type descriptors struct {
	tunnels  int // of open tunnels; a raw one takes two
	visitors int // connections that are not tunnels yet
	queue    int // connections that wait to become visitors
	requests int // in flight, with an upstream connection each
	idle     int // upstream connections kept for the next request
}

// share shares out a limit: nine tenths, or what leaves 512 or half, to tunnels;
// a quarter of all, at most 128, to files; what is left to the others.
func share(limit uint64) descriptors {
	if limit == 0 || limit > 1<<24 {
		return descriptors{}
	}
	n := int(limit)
	rest := max(n/10, min(512, n/2))
	tunnels := n - rest
	rest -= min(128, n/4)
	return descriptors{tunnels: tunnels, requests: max(1, rest*3/8), idle: max(1, rest/8), visitors: max(1, rest*3/8), queue: max(1, rest/8)}
}

// limits are the configured ones, capped by what the descriptors can carry. What
// is capped leaves a quarter to others than the one who takes most.
func (a *App) limits() proxy.Limits {
	c, d := &a.config.Proxy.Limits, share(descriptorLimit())
	l := proxy.Limits{
		Tunnels: c.Tunnels, PerPrincipal: c.PerPrincipal, TunnelFiles: d.tunnels,
		Requests: c.Requests, RequestsPerPrincipal: c.RequestsPerPrincipal,
		Visitors: d.visitors, HeaderBytes: c.HeaderBytes,
	}
	if d.tunnels == 0 {
		return l
	}
	l.Tunnels = min(l.Tunnels, d.tunnels)
	l.PerPrincipal = min(l.PerPrincipal, max(1, d.tunnels*3/4))
	l.Requests = min(l.Requests, d.requests)
	l.RequestsPerPrincipal = min(l.RequestsPerPrincipal, max(1, d.requests*3/4))
	l.Connections = min(l.PerPrincipal, max(1, d.visitors*3/4))
	l.Strangers = min(64, max(1, d.visitors/4))
	l.WaitingVisitors = min(256, d.queue)
	return l
}

// RelaxCollector is for a process that is nothing but a proxy. It lets the heap
// grow to five times what lives in it before it is collected: a proxy's live
// heap is a few MiB, and its garbage is most of its work. With thousands of
// tunnels that would be too much: from relaxedHeap on it is collected as needed.
func RelaxCollector() {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(relaxedHeap)
}

// relaxedHeap, in bytes, is what the Go part of the process may take before the
// collector works harder.
const relaxedHeap = 400 << 20
