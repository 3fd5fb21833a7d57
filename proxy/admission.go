package proxy

import (
	"context"
	"time"

	"github.com/kimbap-run/kimbap/proxy/gate"
	"github.com/kimbap-run/kimbap/runtime"
)

// admission bounds what principals have going at the same time beside tunnels:
// requests in flight, the bytes of bodies that were read whole, and those of
// bodies that are being taken apart. It knows nothing of how requests arrive.
type admission struct {
	limits   Limits
	requests *gate.Gate[string]
	bodies   *gate.Gate[string]
	parsing  *gate.Gate[string]
}

// What is being parsed at the same time, in bytes of text, of one principal and
// in all: a parsed document takes many times its text, but not for long.
const (
	parsingByOne = 4 << 20
	parsingByAll = 16 << 20
)

func newAdmission(l Limits) *admission {
	return &admission{
		limits:   l,
		requests: gate.New(gate.PerOwner(int64(l.RequestsPerPrincipal)), int64(l.Requests), l.Queue, 4*l.Queue),
		bodies:   gate.New(gate.PerOwner(l.HeldPerPrincipal), l.Held, l.Queue, 4*l.Queue),
		parsing:  gate.New(gate.PerOwner(max(parsingByOne, l.BodyBytes)), max(parsingByAll, l.BodyBytes), l.Queue, 4*l.Queue),
	}
}

// enter counts a request of owner as in flight, once there is room, until
// leave. An engine calls both around each request, whatever it came on.
func (a *admission) enter(ctx context.Context, owner string) *runtime.Error {
	w, why := a.requests.Join(owner, 1)
	if w != nil {
		why = a.requests.Await(ctx, w, a.limits.until(), nil)
	}
	if why == gate.None {
		return nil
	}
	return scarce{
		what: "requests running", reason: runtime.ReasonTooManyRequests, hint: "wait for some of them to end",
		own: bound{"requests_per_principal", a.limits.Lowered.RequestsPerPrincipal}, total: bound{"requests", a.limits.Lowered.Requests},
	}.refuse(why)
}

func (a *admission) leave(owner string) { a.requests.Leave(owner, 1) }

// parse runs do, which takes n bytes of owner apart, once there is room for it.
func (a *admission) parse(ctx context.Context, owner string, n int64, do func()) *runtime.Error {
	if n == 0 {
		do()
		return nil
	}
	if why := a.parsing.Enter(ctx, owner, n, a.limits.until(), nil); why != gate.None {
		return noRoom(why)
	}
	defer a.parsing.Leave(owner, n)
	do()
	return nil
}

// noRoom refuses a body that must be read whole.
func noRoom(why gate.Lack) *runtime.Error {
	return scarce{
		what: "bytes of request bodies in memory", reason: runtime.ReasonTooManyRequests,
		hint: "wait for some of the requests to end, or send smaller bodies with their Content-Length",
	}.refuse(why)
}

// holding is the room that one request has taken for its body.
type holding struct {
	of    *admission
	done  context.Context //nolint:containedctx // of the request that this belongs to
	owner string
	taken int64
	body  arriving
}

// arriving is a body that can be given a time to be there in whole.
type arriving interface{ by(end time.Time) }

// room is [runtime.Raw]'s Room: it takes room for n bytes, waiting for it, and
// gives the body its time to arrive in; with less than before it gives back, as the
// body is there.
func (h *holding) room(n int64) error {
	if n <= h.taken {
		h.body.by(time.Time{})
		h.of.bodies.Shrink(h.owner, h.taken, n)
		h.taken = n
		return nil
	}
	if why := h.of.bodies.Enter(h.done, h.owner, n-h.taken, h.of.limits.until(), nil); why != gate.None {
		return noRoom(why)
	}
	h.taken = n
	h.body.by(time.Now().Add(h.of.limits.BodyTimeout))
	return nil
}

// release gives all of it back.
func (h *holding) release() {
	if h.taken > 0 {
		h.of.bodies.Leave(h.owner, h.taken)
		h.taken = 0
	}
}
