package rest

import "net/http/httptrace"

// attention ends an exchange whose upstream takes no more of its body: a write on a connection
// that is shared has its time, but an upload whose window stays shut writes nothing. What
// sends it wants more of the body as soon as all it had has left. Its zero value heeds nothing.
type attention struct{ overdue }

// heededPiece is how much is offered at a time to whom is heeded, in bytes: with net/http's half
// a mebibyte for an upstream of large frames, slow would be taken for deaf.
const heededPiece = 64 << 10

// piece is as much of a reader's room as is offered at a time.
func (a *attention) piece(p []byte) []byte {
	if !a.heeds() {
		return p
	}
	return p[:min(len(p), heededPiece)]
}

// begin heeds how the upstream takes the body of an exchange, until end. That is also when all
// of it has left: the answer may take its time.
func (a *attention) begin(x *exchange, trace *httptrace.ClientTrace) {
	trace.WroteRequest = func(httptrace.WroteRequestInfo) { a.end() }
	a.heed(x, func() {
		x.mu.Lock()
		x.deaf = true // before the cut, which whoever waits for the answer takes for its end
		x.mu.Unlock()
		x.cancel(errDeaf)
	})
}

// offered says that there is something to take.
func (a *attention) offered() { a.wait() }

// taken says that all of it was.
func (a *attention) taken() { a.came() }
