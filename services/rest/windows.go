package rest

import (
	"context"
	"math"
	"time"

	"github.com/kimbap-run/kimbap/proxy/gate"
	"github.com/kimbap-run/kimbap/runtime"
)

// What decoders may keep of the answers that are searched at the same time, in bytes: of
// one principal's, and of all. An upstream may name a window of 16 MiB in a few bytes, and
// stall: the next answer of the same principal waits then. gzip, which keeps little, does
// not count.
const (
	windowsByOne = 128 << 20
	windowsByAll = 512 << 20
)

// newWindows makes the gate. As many may wait as there are requests, which are bounded
// elsewhere.
func newWindows() *gate.Gate[string] {
	return gate.New(gate.PerOwner(windowsByOne), windowsByAll, math.MaxInt, math.MaxInt)
}

// window is what the decoder of one answer may keep.
type window struct {
	x   *exchange
	has int64
}

// take gets room for n bytes in place of what there was, waiting for it as long as a body
// may stand still. Who waits has nothing that others wait for.
func (w *window) take(ctx context.Context, n int64) error {
	w.back()
	g := w.x.b.windows
	waiter, why := g.Join(w.x.owner(), n)
	if waiter != nil {
		w.x.hurry() // the head need not wait
		why = g.Await(ctx, waiter, time.Now().Add(w.x.lines.o.IdleTimeout), nil)
	}
	switch why {
	case gate.None:
		w.has = n
		return nil
	case gate.Gone:
		return context.Cause(ctx)
	}
	return noWindow(why)
}

// back gives the room back.
func (w *window) back() {
	if w.has > 0 {
		w.x.b.windows.Leave(w.x.owner(), w.has)
		w.has = 0
	}
}

// owner is whose answers share what there is of something.
func (x *exchange) owner() string {
	if x.call.Principal == nil {
		return ""
	}
	return x.call.Principal.Owner()
}

// noWindow is the end of an answer that cannot be searched for want of memory. It names no
// time after which to come again: a program would, and have done a second time what the
// upstream has done.
func noWindow(why gate.Lack) error {
	e := &runtime.Error{
		Code: runtime.CodeRateLimited, Reason: runtime.ReasonTooManyRequests, Stage: runtime.StageExecute,
		Msg:  "this principal has as many compressed answers running as there is memory for to search them",
		Hint: "it was answered: do not send it again for that; where it only reads, wait for some of them to end, or ask with Accept-Encoding: gzip, which takes little",
	}
	if why == gate.All {
		e.Reason, e.Msg = runtime.ReasonAtCapacity, "as many compressed answers are running as there is memory for to search them"
	}
	return e
}
