package app

import (
	"context"
	"net"

	"github.com/kimbap-run/kimbap/internal/server"
	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// metered is the trail of a pipeline whose requests are counted: each asks Ready
// once when it begins and hands over its Outcome once when it ends.
type metered struct {
	runtime.Trail
	m   *server.Metrics
	run *ofRun // of this process, if it is one
}

// Ready implements [runtime.Trail].
func (t metered) Ready() error {
	t.m.Begin()
	return t.Trail.Ready()
}

// Outcome implements [runtime.Trail].
func (t metered) Outcome(r *runtime.Record) {
	t.run.tally.Note(r)
	t.run.lent.Note(r)
	t.m.End(r.Surface, r.Verdict.Effect, runtime.CodeOf(errOf(r)), r.Ended.Sub(r.Received))
	t.Trail.Outcome(r)
}

// errOf is the record's error without a typed nil.
func errOf(r *runtime.Record) error {
	if r.Err == nil {
		return nil
	}
	return r.Err
}

// openMetrics counts the requests of a process that serves.
func (a *App) openMetrics(context.Context) (err error) {
	if a.o.Slot == "" {
		return nil // a short command: nobody could ask
	}
	a.metrics, err = server.NewMetrics(server.Gauges{
		AuditLag: func() float64 {
			h := a.trail.Health()
			lag := h.Queue + h.Kept
			for _, s := range h.Sinks {
				lag += s.Queue
			}
			return float64(lag)
		},
		VaultLocked: a.vault.Locked,
	})
	return err
}

// recordedTrail is what the pipeline records in.
func (a *App) recordedTrail() runtime.Trail {
	if a.metrics == nil {
		return a.crowded
	}
	return metered{a.crowded, a.metrics, &a.run}
}

func (a *App) adminListener() (net.Listener, error) {
	c := a.config.Current()
	return socket.Listen(c.Admin.Listen, "another address for admin.listen, or none; now: "+c.Origin("admin.listen"))
}

// serveAdmin opens admin.listen, if it is set, until ctx ends or end is called, which waits
// until it has ended.
func (a *App) serveAdmin(ctx context.Context) (end func(), err error) {
	if a.config.Current().Admin.Listen == "" || a.metrics == nil {
		return func() {}, nil
	}
	ln := a.entrance.admin
	if ln == nil {
		if ln, err = a.adminListener(); err != nil {
			return nil, err
		}
	}
	a.listensAlso(ln)
	s, err := server.NewAdmin(server.Options{Health: a.Health, Notice: a.restartNotice, Metrics: a.metrics, Log: a.o.Log, Clock: a.o.Clock, Hosts: a.config.Current().Serve.Names()})
	if err != nil {
		_ = ln.Close()
		return nil, err
	}
	a.admin.Store(addr(ln))
	return drainedBeside(ctx, drain, s, ln), nil
}

func addr(ln net.Listener) *string {
	text := ln.Addr().String()
	return &text
}

// AdminAddress is where the operator's listener is, "" when there is none.
func (a *App) AdminAddress() string {
	if at := a.admin.Load(); at != nil {
		return *at
	}
	return ""
}
