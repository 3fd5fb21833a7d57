package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// The relay engine: HTTP/1.1 to the upstream without net/http. The goroutine of
// the exchange writes the head and reads the answer itself, on a connection it
// has for itself, so that a request costs no change of goroutine; fields leave
// in the caller's order and spelling. What is rare goes to the other engine
// ([Backend.relays]).

// errUnanswered is the end of a connection before the first byte of an answer.
var errUnanswered = errors.New("the connection ended before the answer")

// relays reports whether the relay engine can carry the message. Upgrades and requests
// that authenticate their connection are net/http's.
func (b *Backend) relays(m *message) bool {
	return b.o.Engine == EngineRelay && m.upgrade == "" && !m.authenticates()
}

// relay sends the message and gives the answer to the responder. It tries once
// more, on a fresh connection, when one that was kept turns out to be dead and the
// request may be repeated, or nothing of it has left. Not carried
// is a message whose way, in x.way, is over HTTP/2.
func (x *exchange) relay(ctx context.Context) (carried bool, err error) {
	s := spot{origin{trustOf(x.call, x.message.authority), x.message.authority}, x.message.scheme}
	const tries = 3
	for try := 1; ; try++ {
		w, h2, err := x.wire(ctx, s, try == 1)
		if err != nil {
			return true, x.failure(ctx, ctx, err)
		}
		if w == nil {
			x.way = h2
			return false, nil
		}
		x.reached = true
		x.result.Address, x.result.Private, x.result.Used = w.address, w.private, x.message.used
		over := x.over
		if w.h2 != nil {
			over = x.overTurn
		}
		again, err := over(ctx, w)
		if err == nil {
			return true, nil
		}
		if !again || try == tries || ctx.Err() != nil {
			return true, x.failure(ctx, ctx, err)
		}
	}
}

// wire returns a wire that was kept, if one may be, or dials one; for a caller of HTTP/2 it
// may return the way to a peer instead. A message of our own goes over a kept wire of
// HTTP/1.1 also where there is HTTP/2, which costs more.
func (x *exchange) wire(ctx context.Context, s spot, kept bool) (*wire, way, error) {
	const dials = 4
	secure, mirror := s.scheme == "https", x.message.mirror
	for range dials {
		if w := x.kept(s, kept); w != nil {
			return w, way{}, nil
		}
		switch {
		case secure && mirror && !x.lines.pool.takesH1(s.origin):
			w, err := x.lines.pool.first(ctx, s.origin)
			if w != nil || err != nil {
				return w, way{}, err
			}
			continue // another caller has it, and what the origin speaks is known
		case secure && !mirror:
			found, err := x.lines.pool.find(ctx, s.origin, x.message.grpc())
			if err != nil || found.peer != nil {
				return nil, found, err
			}
			if found.fresh != nil {
				return x.lines.newWire(found.fresh, s), way{}, nil
			}
			if kept {
				if w := x.lines.racks.take(s); w != nil {
					return w, way{}, nil
				}
			}
		}
		w, err := x.lines.dialWire(ctx, s, mirror)
		if !errors.Is(err, errSpeaksH2) {
			return w, way{}, err
		}
	}
	return nil, way{}, errors.New("the upstream changes its protocol with every connection")
}

// kept returns a wire of the racks, nil when there is none or none may be used.
func (x *exchange) kept(s spot, may bool) *wire {
	m := x.message
	if !may || s.scheme == "https" && !m.mirror {
		return nil
	}
	if m.own || s.scheme != "https" {
		if w := x.lines.racks.take(s); w != nil {
			return w
		}
	}
	if s.scheme != "https" {
		return nil
	}
	if w := x.turn(s); w != nil {
		return w
	}
	return x.lines.racks.take(s)
}

// turn takes the connection of HTTP/2 that callers of HTTP/1.1 have to an origin, if
// nobody is using it: what the upstream chose is used as long as nobody waits for it.
// A busy caller is worth a connection of HTTP/1.1, which it would have without us:
// that costs a request less, and keeps its spelling.
func (x *exchange) turn(s spot) *wire {
	p := x.lines.pool
	have, ok := p.quiet.Load(s.origin)
	if !ok {
		return nil
	}
	if (x.message.before >= busyAfter || have.(*wire).h2.turns.Load() >= busyAfter) && !p.onlyH2(s.origin) {
		return nil
	}
	w := x.lines.racks.take(spot{s.origin, schemeTurns})
	if w != nil {
		w.h2.turns.Add(1)
	}
	return w
}

// busyAfter is how many requests on one connection make a busy caller, or how many
// turns on one connection of the upstream: by then a handshake with it is little
// beside them.
const busyAfter = 128

// bulk is how many bytes of bodies in one exchange are much.
const bulk = 64 << 20

// over is one try over one wire. Again says that the next may be made: the wire
// had been used before and died before a byte of the answer came, and before one of
// a request that may not be repeated had left.
func (x *exchange) over(ctx context.Context, w *wire) (again bool, err error) {
	stop := context.AfterFunc(ctx, w.cut)
	whole := false
	defer func() {
		if stop() && whole {
			x.lines.racks.put(w)
		} else {
			w.cut()
		}
	}()
	sent, werr := x.dispatch(w)
	if werr != nil && w.used && errors.As(werr, new(unsent)) && x.witness.Fault() == nil {
		return true, werr // what could still be read would answer nothing of ours
	}
	defer x.abandon(w, sent)
	if sent == nil {
		w.readWithin(x.lines.o.HeaderTimeout)
	}
	head, first, err := x.receive(w) // also after a write that failed: an early answer says why
	sent.came(w)
	if err != nil {
		again = w.used && !first && !late(err) && x.repeatable()
		if werr != nil {
			err = werr
		}
		return again, x.cause(err)
	}
	w.lease.renew(head.Header)
	body := x.bodyOf(w, &head)
	if body != nil && w.gulp != nil && !head.Chunked {
		if lent := x.b.roomFor(head.Length); lent != nil {
			defer x.large(w, lent)(&whole)
		}
	}
	if body != nil && !head.Chunked && head.Length >= 0 && head.Length < smallSize {
		lent := x.b.head()
		x.room = (*lent)[:smallSize]
		defer x.small(lent, int(head.Length))
	}
	resp := x.response(&head, body)
	x.reading = idled{x: x, w: w, body: body, resp: resp}
	if err := x.answer(ctx, resp, &x.reading); err != nil {
		return false, x.cause(err)
	}
	asked := werr == nil && x.settled(sent)
	if !asked && !w.secure && endsWithConnection(&head, body) {
		return false, io.ErrUnexpectedEOF
	}
	whole = asked && lasts(&head, body)
	return false, nil
}

// endsWithConnection reports whether nothing but the connection's end ended the
// body. Of a reset the kernel tells once, and if a write is told, a read finds an
// end like any other: such a body is whole only if nothing was left to write. TLS
// says that it ends, and is believed (see [gulp.Conn.CutOff]).
func endsWithConnection(head *http1.Response, body *http1.Body) bool {
	return body != nil && !head.Chunked && head.Length < 0
}

// late reports whether the time ran out: a connection that is silent is not
// dead, and its other end may be at work on the request.
func late(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// lasts reports whether the connection can be used after this answer. A 204 that
// announces a body is from a server that may send it, late enough to be taken
// for the next answer.
func lasts(head *http1.Response, body *http1.Body) bool {
	switch {
	case head.Close:
		return false
	case body == nil:
		return head.Status != http.StatusNoContent || !head.Chunked && head.Length <= 0
	}
	return body.Ended() && (head.Chunked || head.Length >= 0)
}

// head lends a buffer for a head.
func (b *Backend) head() *[]byte {
	if buf, ok := b.heads.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, smallSize)
	return &buf
}

// returnHead takes it back, without what was in it.
func (b *Backend) returnHead(buf *[]byte) {
	if cap(*buf) > 64<<10 {
		return
	}
	clear((*buf)[:len(*buf)])
	*buf = (*buf)[:0]
	b.heads.Put(buf)
}

// receive reads heads up to that of the final answer. First says that something
// of an answer had come when it failed.
func (x *exchange) receive(w *wire) (head http1.Response, first bool, err error) {
	buf := x.b.head()
	defer x.b.returnHead(buf)
	for {
		if _, err := w.br.Peek(1); err != nil {
			if err == io.EOF {
				err = errUnanswered
			}
			return head, first, err
		}
		first = true
		head, *buf, err = http1.ReadResponse(w.br, *buf, headLimit)
		if err != nil || head.Status >= 200 || head.Status == http.StatusSwitchingProtocols {
			if err == nil && head.Status == http.StatusSwitchingProtocols {
				err = http1.ErrMalformed // nobody had asked
			}
			return head, first, err
		}
		clear(*buf)                                                       // the next may be shorter
		_ = x.information(head.Status, textproto.MIMEHeader(head.Header)) // keeps its error in broken
		if x.broken != nil {
			return head, first, x.broken
		}
	}
}

// bodyOf returns the body that follows the head, nil for none.
func (x *exchange) bodyOf(w *wire, head *http1.Response) *http1.Body {
	if http1.Bodiless(x.message.method, head.Status) || !head.Chunked && head.Length == 0 {
		return nil
	}
	return http1.NewBody(w.br, head.Framing)
}

// response is the answer in the words that both engines share.
func (x *exchange) response(head *http1.Response, body *http1.Body) *http.Response {
	x.result.Status = head.Status
	reason := head.Reason
	if m := x.message.scrub; m != nil && len(reason) >= m.Shortest() {
		text := []byte(reason)
		x.result.Scrubbed += m.Mask(text)
		reason = string(text)
	}
	x.form, x.formed = runtime.Form{Reason: reason, Order: head.Order, Ready: body != nil && body.Ready()}, true
	r := &http.Response{StatusCode: head.Status, Header: head.Header, Body: http.NoBody}
	if body != nil {
		r.Body = somebody
	}
	for _, name := range http1.List(head.Header["Trailer"]) {
		if !http1.IsToken(name) { // Framing leaves these out; the others are looked at in announced
			x.declare(runtime.ChangeTrailer, name)
		}
	}
	if len(head.Framing.Trailers) > 0 {
		r.Trailer = make(http.Header, len(head.Framing.Trailers))
		for _, name := range head.Framing.Trailers {
			r.Trailer[name] = nil
		}
	}
	return r
}

// somebody is the body of an answer that has one, which is read from the connection.
var somebody = io.NopCloser(nil)

// large prepares for a body that takes many reads. The result ends it, and takes
// back that the wire can be used again when more was read than the body.
func (x *exchange) large(w *wire, lent *room) func(whole *bool) {
	x.room = lent.body
	w.gulp.Begin(lent.readAhead())
	return func(whole *bool) {
		if !w.gulp.End() {
			*whole = false
		}
		x.room = nil
		lent.back()
	}
}

// small takes back the buffer of a short body of n bytes. It is a fraction of the
// one that all others get, of which every byte is cleared.
func (x *exchange) small(lent *[]byte, n int) {
	x.room, *lent = nil, (*lent)[:n]
	x.b.returnHead(lent)
}

// idled reads an answer's body and gives each read the idle time.
type idled struct {
	x    *exchange
	w    *wire
	body *http1.Body
	resp *http.Response // gets the trailer fields at the end
}

// Read implements [io.Reader].
func (i *idled) Read(p []byte) (int, error) {
	if i.body == nil {
		return 0, io.EOF
	}
	if i.body.Waits() {
		i.x.hurry() // what came may not have been enough to pass anything on
		i.w.readWithin(i.x.lines.o.IdleTimeout)
	}
	buffered := i.w.br.Buffered() > 0
	n, err := i.body.Read(p)
	if buffered && err == nil && n < len(p) && i.w.gulp.Ahead() { // what the head came with, and all behind it
		var more int
		i.w.dry = true
		more, err = i.body.Read(p[n:])
		i.w.dry = false
		n += more
	}
	if err == io.EOF {
		i.resp.Trailer = i.body.Trailer()
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // what the connection returns itself
		err = errIdle
	}
	return n, err
}
