package app

import (
	"github.com/kimbap-run/kimbap/internal/config"
	"github.com/kimbap-run/kimbap/internal/resource"
	"github.com/kimbap-run/kimbap/proxy"
)

// limits are the configured ones, capped by what the descriptors can carry.
func (a *App) limits() proxy.Limits {
	return capped(&a.config.Current().Proxy.Limits, resource.Share(resource.Descriptors()))
}

// capped leaves a quarter of what it caps to others than the one who takes most.
func capped(c *config.Limits, d resource.Shares) proxy.Limits {
	l := proxy.Limits{
		Tunnels: c.Tunnels, PerPrincipal: c.PerPrincipal, TunnelFiles: d.Tunnels,
		Requests: c.Requests, RequestsPerPrincipal: c.RequestsPerPrincipal,
		Visitors: d.Visitors, HeaderBytes: c.HeaderBytes,
	}
	if d.Tunnels == 0 {
		return l
	}
	l.Lowered.Tunnels = lower(&l.Tunnels, d.Tunnels)
	l.Lowered.PerPrincipal = lower(&l.PerPrincipal, max(1, d.Tunnels*3/4))
	l.Lowered.Requests = lower(&l.Requests, d.Requests)
	l.Lowered.RequestsPerPrincipal = lower(&l.RequestsPerPrincipal, max(1, d.Requests*3/4))
	l.Connections = min(l.PerPrincipal, max(1, d.Visitors*3/4))
	l.Strangers = min(64, max(1, d.Visitors/4))
	l.WaitingVisitors = min(256, d.Queue)
	return l
}

// lower makes limit most if it is more.
func lower(limit *int, most int) (lowered bool) {
	lowered = *limit > most
	*limit = min(*limit, most)
	return lowered
}

// LongLived is for a process that serves until it is ended: it trades memory for speed,
// and with a spare slot of the scheduler lets no processor wait for the disk.
func LongLived(spare bool) {
	resource.RelaxCollector()
	if spare {
		resource.SpareSlots()
	}
}

// HurryCollector is for a command that lives for a moment: it collects hardly any
// garbage.
func HurryCollector() { resource.HurryCollector() }
