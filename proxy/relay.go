package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// The relay engine: HTTP/1.1 with clients without net/http. One goroutine reads
// a head, sends it through the pipeline and writes the answer, so that a request
// costs no change of goroutine; fields go back in the upstream's order and
// spelling. It serves the insides of tunnels and absolute-form requests. CONNECT
// it gives to goproxy itself, and requests to the proxy to net/http and goproxy.

// relay is one client connection of the engine.
type relay struct {
	s      *Server
	c      *conn
	br     *bufio.Reader
	ctx    context.Context // of the connection, which has one request at a time
	cancel context.CancelFunc
	reads  http1.Deadline
	head   []byte // of the last request
	watch  watch
	phase  atomic.Int32
	asked  atomic.Int32 // requests so far
	handed bool         // it is net/http's now, or a tunnel
	opened *conn        // the inside of that tunnel, to be served; may be nil

	inside  *interior  // below the TLS of a tunnel, where writes get their time; nil without
	writing sync.Mutex // a body's first read says 100 (Continue) from another goroutine
	writes  http1.Deadline
	out     []byte
}

// Phases of a relay. A connection that is awaited may be closed by a drain.
const (
	relayAwaited int32 = iota
	relayBusy
	relayClosed
)

// relayBuffer is the size of a connection's reader, in bytes.
const relayBuffer = 4 << 10

// serveRelay serves c, and then what is inside the tunnel that it may become, until
// it ends or is handed on. The first request inside is served here, where the
// handshake has grown the stack; what waits for more is a goroutine of its own, with
// a small one.
func (s *Server) serveRelay(c *conn) {
	var br *bufio.Reader
	for c != nil {
		r := s.newRelay(c, br)
		switch {
		case r == nil:
			_ = c.Close()
			return
		case c.tunnel == nil:
			c, br = r.run(), r.br
		case r.turn():
			go r.run()
			return
		default:
			r.end()
			return
		}
	}
}

// newRelay makes the engine of a connection; nil when there are to be no more. br
// is the reader of what the connection was before, nil for none.
func (s *Server) newRelay(c *conn, br *bufio.Reader) *relay {
	if br == nil {
		br = bufio.NewReaderSize(nil, relayBuffer)
	}
	br.Reset(c.Conn)
	r := &relay{s: s, c: c, br: br}
	r.watch.r = r
	if !s.relays.enter(r) {
		return nil
	}
	r.ctx, r.cancel = context.WithCancel(s.base)
	if r.inside = insideOf(c); r.inside != nil {
		r.inside.give(s.o.Limits.IdleTimeout)
	}
	return r
}

// run serves requests until the connection ends, or is handed on, as what is
// opened then.
func (r *relay) run() (opened *conn) {
	for r.turn() {
	}
	r.end()
	return r.opened
}

// turn serves one request and reports whether the connection goes on. A panic between the
// requests ends it, and no other.
func (r *relay) turn() (more bool) {
	defer func() {
		if p := recover(); p != nil {
			r.s.broke("between two requests", p)
			r.cancel()
			_ = r.c.Close()
			more = false
		}
	}()
	if !r.next() {
		return false
	}
	r.lighten()
	return r.phase.CompareAndSwap(relayBusy, relayAwaited) && !r.s.relays.draining.Load()
}

// end is the last that is done.
func (r *relay) end() {
	if !r.handed {
		r.hangUp()
	}
	r.s.relays.leave(r)
	r.cancel()
}

// lighten gives large buffers back before a connection waits for a request, as
// most do most of the time.
func (r *relay) lighten() {
	if r.br.Buffered() > 0 {
		return
	}
	if cap(r.head) > relayBuffer {
		r.head = nil
	}
	if cap(r.out) > relayBuffer {
		buf := r.out[:cap(r.out)]
		clear(buf) // bytes of one client never lie about in another's
		r.s.outs.Put(&buf)
		r.out = nil
	}
}

// room makes r.out take n bytes more.
func (r *relay) room(n int) {
	if cap(r.out)-len(r.out) >= n {
		return
	}
	if buf, ok := r.s.outs.Get().(*[]byte); ok && cap(*buf) >= len(r.out)+n {
		r.out = append((*buf)[:0], r.out...)
		return
	}
	r.out = append(make([]byte, 0, len(r.out)+n), r.out...)
}

// next serves one request and reports whether another may follow.
func (r *relay) next() bool {
	r.reads.Within(r.s.o.Limits.IdleTimeout, r.c.SetReadDeadline)
	first, err := r.begins()
	if err != nil {
		r.c.heard(len(first), err)
		return false
	}
	r.c.first = nil
	if !r.phase.CompareAndSwap(relayAwaited, relayBusy) {
		return false // closed by a drain
	}
	r.asked.Add(1)
	if c := first[0]; !http1.IsTokenByte(c) && c != '\r' && c != '\n' { // TLS, often: its sender waits for us
		r.head = append(r.head[:0], c)
		return r.serve(r.head, notAMethod(c, r.c.tunnel != nil))
	}
	if buffered, _ := r.br.Peek(r.br.Buffered()); !bytes.Contains(buffered, []byte("\r\n\r\n")) {
		r.reads.Within(r.s.o.Limits.HeadTimeout, r.c.SetReadDeadline)
	}
	raw, err := http1.ReadHead(r.br, r.head[:0], r.s.o.Limits.HeaderBytes, true)
	r.head = raw
	var refused *runtime.Error
	switch {
	case errors.Is(err, http1.ErrTooLarge):
		refused = tooLarge("the request head is over the limit")
	case errors.Is(err, http1.ErrBareLF):
		refused = bareLF()
	case errors.Is(err, http1.ErrMalformed):
		refused = badHead("it does not begin with a method")
	case err != nil:
		return r.unfinished(raw, err)
	}
	if r.c.tunnel == nil && refused == nil && !absolute(raw) {
		if q := r.asksTunnel(raw); q != nil {
			return r.connect(q)
		}
		return r.handOver(raw)
	}
	return r.serve(raw, refused)
}

// begins waits for the first byte of a request, past one empty line before one that is not
// the first (RFC 9112 section 2.2): old clients send it behind the body of a POST. It belongs
// to neither request, and nobody hears of it.
func (r *relay) begins() (first []byte, err error) {
	first, err = r.br.Peek(1)
	if err != nil || first[0] != '\r' || r.asked.Load() == 0 {
		return first, err
	}
	if line, err := r.br.Peek(2); err != nil || line[1] != '\n' {
		return first, err
	}
	_, _ = r.br.Discard(2)
	return r.br.Peek(1)
}

// unfinished is a head whose rest did not come. What cannot be the beginning of
// a request is told so, if its sender is still there.
func (r *relay) unfinished(raw []byte, err error) bool {
	if len(raw) > 0 && !http1.IsTokenByte(raw[0]) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return r.serve(raw, badHead("it does not begin with a method"))
	}
	return false
}

// absolute reports whether a head on the listener is a request to be forwarded:
// neither CONNECT nor a path of ours.
func absolute(raw []byte) bool {
	method, rest, _ := bytes.Cut(raw, []byte(" "))
	return string(method) != http.MethodConnect && len(rest) > 0 && rest[0] != '/' && rest[0] != '*'
}

// handOver gives the connection, and what was read of it, to net/http.
func (r *relay) handOver(raw []byte) bool {
	rest, _ := r.br.Peek(r.br.Buffered())
	r.c.guard.rest = append(append([]byte(nil), raw...), rest...)
	_ = r.c.SetDeadline(time.Time{})
	r.handed = true
	if !r.s.feed.put(r.c) {
		_ = r.c.Close()
	}
	return false
}

// serve sends one request through the pipeline and answers it.
func (r *relay) serve(raw []byte, refused *runtime.Error) (more bool) {
	r.s.active.Add(1)
	defer r.s.active.Done()
	if !r.c.wake() {
		return false // given up for another while the head was read
	}
	a := &relayed{r: r, left: -1}
	var b *inbound
	var ended error
	defer func() {
		if p := recover(); p != nil {
			r.panicked(a, p)
			more = false
		}
		r.watch.end()
		r.c.rest() // before what is left of a body is read, which counts for nobody
		if b != nil {
			more = b.finish(a) && more
			r.c.uploads.Store(b.goesOn() && !errors.Is(ended, os.ErrDeadlineExceeded)) // it had its time
		}
	}()
	h, header, order, err := parseWhole(raw, r.s.o.Limits.HeaderFields)
	if refused == nil {
		if refused = err; refused == nil {
			refused = r.c.checkRouting(h)
		}
		if refused == nil && h.method == refusedMethod {
			refused = badHead("the method is reserved")
		}
	}
	if refused != nil {
		r.refuseHead(a, refused)
		return false
	}
	a.method, a.asker, a.minor, a.close = h.method, runtime.AskerOf(header), h.minor, h.close
	caller := r.s.caller(r.c, header)
	if r.c.tunnel != nil {
		caller = r.c.tunnel.caller
	}
	req := r.s.newRequest(caller, runtime.Target{Method: h.method})
	req.Raw, b = r.raw(h, header, order, a)
	if r.s.o.KeepHeads {
		req.Raw.Head = bytes.Clone(raw)
	}
	a.body = b
	p := passage{s: r.s, c: r.c, req: req}
	defer p.leave() // also when enter panics
	a.upgrading = p.enter(r.ctx, asked{method: h.method, target: h.target, host: h.host})
	r.watch.begin(b)
	ended = r.s.send(r.ctx, req, a)
	a.finish(ended)
	return !a.close && a.taken == nil && r.ctx.Err() == nil
}

// refuseHead answers a head that cannot be trusted: nothing after it can be.
func (r *relay) refuseHead(a *relayed, refused *runtime.Error) {
	a.close, a.minor = true, 1
	a.finish(r.s.sendRefused(r.ctx, r.c, refused, a))
}

// raw is the client's request as the backend may send it.
func (r *relay) raw(h head, header http.Header, order []string, a *relayed) (*runtime.Raw, *inbound) {
	raw := &runtime.Raw{Proto: "HTTP/1.1", Order: order, Before: int(r.asked.Load()) - 1, ContentLength: h.length}
	if h.minor == 0 {
		raw.Proto = "HTTP/1.0"
	}
	var trailers []string
	if h.chunked {
		trailers = http1.List(header["Trailer"])
	}
	waits := h.minor == 1 && hasWord(foldList(header["Expect"]), "100-continue")
	raw.Header, raw.Changed = header, endToEnd(header)
	if !h.chunked && h.length == 0 {
		return raw, nil
	}
	framing := http1.Framing{Chunked: h.chunked, Length: h.length}
	if h.chunked {
		raw.ContentLength = -1
	}
	b := &inbound{r: r, a: a, length: raw.ContentLength, body: http1.NewBody(r.br, framing), waits: waits}
	raw.Body, raw.Trailer = b, b.body.Trailer
	if h.chunked {
		for _, name := range trailers {
			raw.Announced = append(raw.Announced, http.CanonicalHeaderKey(name))
		}
	}
	return raw, b
}

// panicked keeps a panic to its own request: a 500 if there was no answer yet.
func (r *relay) panicked(a *relayed, p any) {
	a.close = true
	r.s.o.Log.Error().Interface("panic", p).Str("method", a.method).Bytes("stack", debug.Stack()).Msg("panic in the proxy")
	if a.status == 0 {
		a.refuse(panicError(p))
		return
	}
	_ = r.c.Close()
}
