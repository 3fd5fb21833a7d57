package rest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"time"

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

// relays reports whether the relay engine can carry the message. Upgrades,
// requests that wait for 100 (Continue) and those that authenticate their
// connection are net/http's.
func (b *Backend) relays(m *message) bool {
	return b.o.Engine == EngineRelay && m.upgrade == "" && !ownsConnection(m.header)
}

// relay sends the message and gives the answer to the responder. It tries again
// on another connection when one that was kept turns out to be dead and nothing
// can have been seen of a request that may not be repeated.
func (x *exchange) relay(ctx context.Context) error {
	s := spot{trustOf(x.call, x.message.authority), x.message.scheme, x.message.authority}
	for {
		w := x.b.racks.take(s)
		if w == nil {
			var err error
			if w, err = x.b.dialWire(ctx, s); err != nil {
				return x.failure(ctx, ctx, err)
			}
		}
		x.connected = true
		x.result.Address, x.result.Private, x.result.Used = w.address, w.private, x.message.used
		again, err := x.over(ctx, w)
		if err == nil {
			return nil
		}
		if !again || ctx.Err() != nil {
			return x.failure(ctx, ctx, err)
		}
	}
}

// over is one try over one wire. Again says that the next may be made: the wire
// had been used before and died before a byte of the answer came.
func (x *exchange) over(ctx context.Context, w *wire) (again bool, err error) {
	stop := context.AfterFunc(ctx, w.cut)
	whole := false
	defer func() {
		if stop() && whole {
			x.b.racks.put(w)
		} else {
			w.cut()
		}
	}()
	sent, werr := x.dispatch(w)
	if errors.Is(werr, errField) {
		return false, werr
	}
	defer x.abandon(w, sent)
	w.readWithin(x.b.o.HeaderTimeout)
	head, first, err := x.receive(w) // also after a write that failed: an early answer says why
	if err != nil {
		if werr != nil {
			err = werr
		}
		return w.used && !first && x.repeatable(), err
	}
	body := x.bodyOf(w, &head)
	resp := x.response(&head, body)
	if err := x.answer(resp, &idled{x: x, w: w, body: body, resp: resp}); err != nil {
		return false, err
	}
	whole = werr == nil && x.settled(sent) && !head.Close && (body == nil || body.Ended() && (head.Chunked || head.Length >= 0))
	return false, nil
}

// repeatable reports whether the message may be sent twice: nothing that
// changes something (RFC 9110 section 9.2.2), no body that was streamed.
func (x *exchange) repeatable() bool {
	if x.message.body != nil {
		return false
	}
	switch x.message.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// sending is a streamed body on its way, in a goroutine of its own. Nil: all
// was written before the answer was waited for.
type sending struct{ done chan struct{} }

// finished reports whether the body has left to its end.
func (s *sending) finished() bool {
	if s == nil {
		return true
	}
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// settled is finished for a body whose last byte was taken from the caller: the
// upstream may have it, and answer, before its sender has returned.
func (x *exchange) settled(s *sending) bool {
	if s.finished() {
		return true
	}
	if !x.sent.exhausted() {
		return false
	}
	late := time.NewTimer(settleTime)
	defer late.Stop()
	select {
	case <-s.done:
		return true
	case <-late.C:
		return false
	}
}

// settleTime is that long at most: the client waits for the end of its answer.
const settleTime = 50 * time.Millisecond

// abandon ends a body that is still on its way. The wire is of no use then.
func (x *exchange) abandon(w *wire, s *sending) {
	if s == nil || s.finished() {
		return
	}
	x.result.BytesOut, _ = x.sent.stop()
	w.cut()
}

// dispatch writes head and body. A body that is streamed goes on in the
// background; then the result is not nil, with or without an error.
func (x *exchange) dispatch(w *wire) (*sending, error) {
	m := x.message
	w.writeWithin(x.b.o.IdleTimeout)
	buf := x.b.head()
	defer x.b.returnHead(buf)
	head, err := m.appendHead((*buf)[:0])
	if err != nil {
		return nil, err
	}
	*buf = head
	w.watch(x.witness)
	switch {
	case m.body == nil:
		_, err = w.conn.Write(head)
		return nil, err
	case m.whole != nil && m.length >= 0:
		return nil, x.writeWhole(w, buf)
	}
	if _, err := w.conn.Write(head); err != nil {
		return nil, err
	}
	s := &sending{done: make(chan struct{})}
	go x.stream(w, s)
	return s, nil
}

// writeWhole writes a head and a body in memory, together when they are small.
func (x *exchange) writeWhole(w *wire, head *[]byte) error {
	body := x.message.whole
	x.sent.note(int64(len(body)))
	if len(*head)+len(body) <= wireBuffer*4 {
		*head = append(*head, body...)
		_, err := w.conn.Write(*head)
		return err
	}
	if _, err := w.conn.Write(*head); err != nil {
		return err
	}
	_, err := w.conn.Write(body)
	return err
}

// stream passes the caller's body on as it comes. On the caller's failure the
// wire is cut: the upstream must not take what it got for the whole.
func (x *exchange) stream(w *wire, s *sending) {
	err := x.b.withBuffer(func(buf []byte) error { return x.streamBody(w, buf) })
	if err != nil {
		w.cut()
		return // not finished
	}
	close(s.done)
}

// head lends a buffer for a head.
func (b *Backend) head() *[]byte {
	if buf, ok := b.heads.Get().(*[]byte); ok {
		return buf
	}
	buf := make([]byte, 0, 4<<10)
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

// chunkRoom is the room for a chunk's size line before its data and the line
// end behind it, in bytes.
const chunkRoom = 16

func (x *exchange) streamBody(w *wire, buf []byte) error {
	m, left := x.message, x.message.length
	for {
		room := buf[chunkRoom : len(buf)-chunkRoom]
		n, err := x.sent.Read(room)
		if n > 0 {
			out := room[:n]
			if m.length < 0 {
				out = frameChunk(buf, n)
			} else if left -= int64(n); left < 0 {
				return errLength
			}
			_ = w.conn.SetWriteDeadline(time.Now().Add(x.b.o.IdleTimeout))
			if _, werr := w.conn.Write(out); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if m.length >= 0 {
		if left != 0 {
			return errLength
		}
		return nil
	}
	var trailer http.Header
	if m.trailer != nil {
		trailer = cleanTrailer(m.trailer(), x.sent.drop, m.private...)
		if !writable(trailer) {
			return errField
		}
	}
	_, err := w.conn.Write(http1.AppendLastChunk(buf[:0], trailer))
	return err
}

// frameChunk makes a chunk of the n bytes that stand chunkRoom into buf.
func frameChunk(buf []byte, n int) []byte {
	const digits = "0123456789abcdef"
	at := chunkRoom - 2
	buf[at], buf[at+1] = '\r', '\n'
	for size := n; ; size >>= 4 {
		at--
		buf[at] = digits[size&15]
		if size < 16 {
			break
		}
	}
	end := chunkRoom + n
	buf[end], buf[end+1] = '\r', '\n'
	return buf[at : end+2]
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
	if m := x.message.scrub; m != nil && len(reason) >= m.min {
		text := []byte(reason)
		x.result.Scrubbed += m.mask(text)
		reason = string(text)
	}
	x.form = &runtime.Form{Reason: reason, Order: head.Order, Ready: body != nil && body.Ready()}
	r := &http.Response{StatusCode: head.Status, Header: head.Header, Body: http.NoBody}
	if body != nil {
		r.Body = io.NopCloser(nil)
	}
	if len(head.Framing.Trailers) > 0 {
		r.Trailer = make(http.Header, len(head.Framing.Trailers))
		for _, name := range head.Framing.Trailers {
			r.Trailer[name] = nil
		}
	}
	return r
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
		i.w.readWithin(i.x.b.o.IdleTimeout)
	}
	n, err := i.body.Read(p)
	if err == io.EOF {
		i.resp.Trailer = i.body.Trailer()
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // what the connection returns itself
		err = errIdle
	}
	return n, err
}
