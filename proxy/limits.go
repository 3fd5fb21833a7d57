package proxy

import (
	"time"

	"github.com/kimbap-run/kimbap/proxy/gate"
	"github.com/kimbap-run/kimbap/runtime"
)

// Limits bound what one client can take. A zero field is its default. What is
// over a limit waits for its turn; only a queue that is full, or too long a
// wait, refuses.
type Limits struct {
	Tunnels      int // open tunnels in all; 20000
	PerPrincipal int // open tunnels of one principal; 2000
	TunnelFiles  int // descriptors of all tunnels, a raw one has two; 0: twice as many as Tunnels
	Visitors     int // connections on the listener in all, tunnels aside; 0: as many as their owners may have
	Connections  int // of the owner among them; as many as PerPrincipal and Tunnels allow, at least Strangers
	Strangers    int // of any other user, of each that a kimbap elsewhere says ([Known]), of each host of unknown peers, and of all those on loopback together; 64

	Requests             int // in flight in all; 8192
	RequestsPerPrincipal int // in flight of one principal; 1024
	Queue                int // of one principal that wait for any of these; 256, and four times as many in all
	WaitingVisitors      int // connections that wait to become visitors, in all and at most half of them of one peer; 256

	HeaderBytes      int   // of one head, request line included; 65536
	HeaderFields     int   // in one head; 256
	BodyBytes        int64 // of a body that must be read to classify; 1 MiB
	HeldPerPrincipal int64 // of the bodies of one principal's requests that were read whole; 64 MiB
	Held             int64 // of all such bodies; 256 MiB

	QueueTimeout time.Duration // of a wait for any of these; 5 s
	RestTime     time.Duration // how long a tunnel without a request stays when its principal wants room; 10 s
	HeadTimeout  time.Duration // from a head's first byte to its last, and for a TLS handshake; 10 s
	BodyTimeout  time.Duration // of a body that must be read whole, in all; 1 min
	IdleTimeout  time.Duration // between requests, and for one read or write of a body that does not move, but for a read beside an answer of 2xx; 2 min
	DrainTimeout time.Duration // of Shutdown; 10 s

	Lowered Lowered
}

// Lowered says which limits are those of the process, whose limit of open files allows no
// more: their settings would change nothing.
type Lowered struct {
	Tunnels, PerPrincipal, Requests, RequestsPerPrincipal bool

	files bool // TunnelFiles is given
}

// withDefaults fills the zero fields.
func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&l.Tunnels, 20000}, {&l.PerPrincipal, 2000}, {&l.Strangers, 64},
		{&l.Requests, 8192}, {&l.RequestsPerPrincipal, 1024}, {&l.Queue, 256}, {&l.WaitingVisitors, 256},
		{&l.HeaderBytes, 64 << 10}, {&l.HeaderFields, 256},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if l.TunnelFiles <= 0 {
		l.TunnelFiles = 2 * l.Tunnels
	} else {
		l.Lowered.files = true
	}
	if l.Connections <= 0 {
		l.Connections = max(l.Strangers, min(l.PerPrincipal, l.Tunnels))
	}
	for _, d := range []struct {
		field *int64
		value int64
	}{{&l.BodyBytes, 1 << 20}, {&l.HeldPerPrincipal, 64 << 20}, {&l.Held, 256 << 20}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&l.QueueTimeout, 5 * time.Second}, {&l.RestTime, 10 * time.Second},
		{&l.HeadTimeout, 10 * time.Second}, {&l.BodyTimeout, time.Minute},
		{&l.IdleTimeout, 2 * time.Minute}, {&l.DrainTimeout, 10 * time.Second},
	} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// until is when a wait that begins now has taken too long.
func (l *Limits) until() time.Time { return time.Now().Add(l.QueueTimeout) }

// scarce is something there is not enough of: its words for a refusal.
type scarce struct {
	what       string // "tunnels open"
	reason     runtime.Reason
	hint       string
	own, total bound
}

// bound is what bounds it.
type bound struct {
	setting string // "" without one
	lowered bool   // to what the limit of open files allows
}

// refuse says why there was no room after all.
func (s scarce) refuse(why gate.Lack) *runtime.Error {
	e := &runtime.Error{Code: runtime.CodeRateLimited, Reason: s.reason, Stage: runtime.StageSurface, RetryAfter: time.Second}
	switch why {
	case gate.None:
		return nil
	case gate.Gone:
		return &runtime.Error{Code: runtime.CodeCanceled, Stage: runtime.StageSurface, Msg: "the client went away while it waited"}
	case gate.All:
		e.Reason = runtime.ReasonAtCapacity
		e.Msg, e.Hint = "the proxy has as many "+s.what+" as it may", s.hint+s.total.raise()
	default:
		e.Msg, e.Hint = "this principal has as many "+s.what+" as it may", s.hint+s.own.raise()
	}
	return e
}

func (b bound) raise() string {
	switch {
	case b.lowered:
		return ", or raise the limit of open files (ulimit -n; kimbap status shows it)"
	case b.setting == "":
		return ""
	}
	return ", or raise proxy.limits." + b.setting
}
