package rest

import (
	"net/http/httptrace"
	"sync"
	"time"
)

// attention ends an exchange whose upstream takes no more of its body: a write on a connection
// that is shared has its time, but an upload whose window stays shut writes nothing. What
// sends it wants more of the body as soon as all it had has left. Its zero value heeds nothing.
type attention struct {
	mu    sync.Mutex
	of    *exchange   // nil: nobody heeds
	timer *time.Timer // nil before there was anything to take
	waits bool        // there is, and the upstream has not taken it
	since time.Time   // when it was there
}

// heededPiece is how much is offered at a time to whom is heeded, in bytes: with net/http's half
// a mebibyte for an upstream of large frames, slow would be taken for deaf.
const heededPiece = 64 << 10

// piece is as much of a reader's room as is offered at a time.
func (a *attention) piece(p []byte) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		return p
	}
	return p[:min(len(p), heededPiece)]
}

// begin heeds how the upstream takes the body of an exchange, until end. That is also when all
// of it has left: the answer may take its time.
func (a *attention) begin(x *exchange, trace *httptrace.ClientTrace) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of, trace.WroteRequest = x, func(httptrace.WroteRequestInfo) { a.end() }
}

// offered says that there is something to take.
func (a *attention) offered() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		return
	}
	a.waits, a.since = true, time.Now()
	if idle := a.of.lines.o.IdleTimeout; a.timer == nil {
		a.timer = time.AfterFunc(idle, a.late)
	} else {
		a.timer.Reset(idle)
	}
}

// taken says that all of it was.
func (a *attention) taken() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rest()
}

func (a *attention) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of = nil
	a.rest()
}

func (a *attention) rest() {
	if a.waits {
		a.waits = false
		a.timer.Stop()
	}
}

func (a *attention) late() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.of; x != nil && a.waits && time.Since(a.since) >= x.lines.o.IdleTimeout { // else it came too late itself
		x.mu.Lock()
		x.deaf = true // before the cut, which whoever waits for the answer takes for its end
		x.mu.Unlock()
		x.cancel(errDeaf)
	}
}
