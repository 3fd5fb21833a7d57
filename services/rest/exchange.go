package rest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/witness"
)

var (
	// errIdle is the cause of a body that did not move for too long.
	errIdle = errors.New("nothing moved for the idle timeout")
	// errDeaf is an upstream that took nothing more of a request for too long.
	errDeaf = errors.New("nothing of the request was taken for the idle timeout")
	// errHints is an upstream that sends 1xx answers and no other.
	errHints = errors.New("too many 1xx answers")
)

// exchange is one request and its answer.
type exchange struct {
	b       *Backend
	lines   *lines // that it keeps to
	call    *runtime.Call
	message *message
	cancel  context.CancelCauseFunc // where run has made one
	out     runtime.Responder
	result  *runtime.Result
	witness *witness.Witness // nil: nobody compares

	conn    atomic.Pointer[link] // net/http's HTTP/1.1 connection in use
	reached bool                 // or another one was
	way     way                  // where the next try goes, when that is known
	room    []byte               // for the body of a large answer; nil: a common buffer
	form    runtime.Form         // how the upstream wrote the head, when formed
	formed  bool
	held    runtime.Holding // may hold the head back for the body; nil: nobody does
	sent    upload
	reading idled // the body of the answer, of the relay engine

	mu        sync.Mutex
	holdsBack *sending // a body that waits for 100 (Continue); nil: none does
	answered  bool     // no 1xx may be passed on any more
	interim   int      // 1xx so far
	broken    error    // of passing one on
	deaf      bool     // the upstream takes no more of the body, and was cut off
}

// run sends the message and gives the answer to the responder.
func (x *exchange) run(ctx context.Context) error {
	x.sent.src = x.message.body
	defer x.settleUpload()
	if !x.message.writable() {
		return x.failure(ctx, ctx, errField) // before anything is dialled or noted as used
	}
	ctx, end := x.sent.silent.begin(ctx, x)
	defer end()
	if x.b.relays(x.message) {
		if carried, err := x.relay(ctx); carried {
			return err
		}
	}
	parent := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.cancel = cancel
	resp, err := x.roundTrip(ctx)
	if err == nil && !http1.IsStatus(resp.StatusCode) { // net/http takes any number
		_ = resp.Body.Close()
		err = http1.ErrMalformed
	}
	if err != nil {
		return x.failure(parent, ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	x.witness.Answered(resp)
	x.result.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return x.upgrade(ctx, resp)
	}
	body := x.clocked(resp.Body, func() { cancel(errIdle) })
	defer body.timer.Stop()
	if n := resp.ContentLength; n > 0 && n < smallSize {
		lent := x.b.head()
		x.room = (*lent)[:smallSize]
		defer x.small(lent, int(n))
	}
	if bare, ok := x.out.(runtime.Bare); ok && resp.ProtoMajor == 2 && resp.ContentLength == 0 && resp.Header["Content-Length"] == nil {
		bare.NoBody() // the head was the end: a length of 0 may have trailers behind it
	}
	if n := resp.ContentLength; n > 0 { // a stream of unknown length may be one of events
		if lent := x.b.roomFor(n); lent != nil {
			x.room = lent.body
			defer func() { x.room = nil; lent.back() }()
		}
	}
	if err := x.answer(ctx, resp, body); err != nil {
		return x.failure(parent, ctx, err)
	}
	return nil
}

// settleUpload ends the sending and takes into the result what came of it.
func (x *exchange) settleUpload() {
	x.result.BytesOut, _ = x.sent.stop()
	x.sent.mu.Lock()
	defer x.sent.mu.Unlock()
	for _, name := range append(x.sent.dropped, x.message.lost(&x.sent)...) {
		x.message.declare(runtime.ChangeTrailer, name)
	}
	if room := x.sent.room; room != nil {
		x.sent.room = nil
		x.b.returnHead(room)
	}
}

// rewind makes a short body that was read to its end one in memory, which can be sent again.
func (x *exchange) rewind() bool {
	m := x.message
	whole, ok := x.sent.kept(m.length)
	if ok {
		m.whole, m.body = whole, bytes.NewReader(whole)
	}
	return ok
}

// roundTrip sends the message on the connection the pool finds, and on another
// one when that took nothing of it.
func (x *exchange) roundTrip(ctx context.Context) (*http.Response, error) {
	const tries = 3
	defer x.settle()
	silence(x.message.header)
	m, t := x.message, trustOf(x.call, x.message.authority)
	if m.scheme != "https" || m.upgrade != "" || m.authenticates() || m.awaits() && m.mirror {
		return x.overH1(ctx, t, &wish{onlyH1: true})
	}
	for try := 1; ; try++ {
		w, err := x.find(ctx, origin{t, m.authority})
		if err != nil {
			return nil, err
		}
		var resp *http.Response
		var again bool
		if w.peer != nil {
			resp, again, err = x.overH2(ctx, w.peer)
			demanded := x.heed(err, origin{t, m.authority}) && !x.interrupted()
			again = (again || demanded) && (m.whole != nil || x.sent.fresh()) || again && x.rewind()
		} else {
			own := &wish{}
			own.fresh.Store(w.fresh)
			resp, err = x.overH1(ctx, t, own)
			again = errors.Is(err, errSpeaksH2)
		}
		if err == nil || !again || try == tries || ctx.Err() != nil {
			return resp, err
		}
	}
}

// find returns the way to the origin: the one that is known already, once.
func (x *exchange) find(ctx context.Context, o origin) (way, error) {
	if w := x.way; w.peer != nil {
		x.way = way{}
		return w, nil
	}
	return x.lines.pool.find(ctx, o, x.message.grpc())
}

// overH1 sends the message with net/http, once more when the connection had
// gone stale before the first byte left and nothing of a streamed body was
// asked for.
func (x *exchange) overH1(ctx context.Context, t trust, own *wish) (*http.Response, error) {
	const tries = 3
	ctx = context.WithValue(httptrace.WithClientTrace(ctx, x.trace()), wishKey{}, own)
	defer func() {
		if left := own.fresh.Swap(nil); left != nil { // an idle one was there before it
			_ = left.Close()
		}
	}()
	for try := 1; ; try++ {
		request, err := x.message.request(ctx, &x.sent, false)
		if err != nil {
			return nil, err
		}
		x.once(request)
		x.conn.Store(nil)
		resp, err := x.lines.transports[t].RoundTrip(request)
		if err == nil && !writable(resp.Header) { // net/http lets a blank in a name pass
			_ = resp.Body.Close()
			return nil, http1.ErrMalformed
		}
		if err == nil {
			return resp, x.broke(resp)
		}
		conn := x.conn.Load()
		stale := conn != nil && conn.untouched() && x.sent.fresh() && ctx.Err() == nil
		if try == tries || !stale || request.Body == nil { // of that, net/http does it
			return nil, err
		}
	}
}

// trace watches net/http: which connection is used, when it is free again, and
// the 1xx answers.
func (x *exchange) trace() *httptrace.ClientTrace {
	left := false // on a connection before: what is sent again is so once, on a fresh one
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			conn, ok := info.Conn.(*link)
			if !ok {
				return
			}
			last := x.conn.Load()
			left = left || last != nil && !last.untouched()
			conn.watch(x.witness)
			conn.begin()
			x.conn.Store(conn)
			x.sent.resume()
			conn.whenLost(func() {
				if x.conn.Load() == conn { // another one may have taken its place
					x.sent.giveUp(nil, false)
				}
			})
			if left && info.Reused {
				_ = conn.Close() // net/http takes another one, as nothing left on this
				return
			}
			x.result.Address, x.result.Private = conn.address, conn.private
			x.result.Used = x.message.used // not before: without a connection nothing left
		},
		PutIdleConn: func(err error) {
			if conn := x.conn.Load(); conn != nil && err == nil {
				conn.end()
			}
		},
		Got1xxResponse: x.information,
	}
}

// information passes a 1xx on. net/http calls it from a goroutine of its own,
// but only while roundTrip waits, which settle makes certain.
func (x *exchange) information(status int, header textproto.MIMEHeader) (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	defer func() {
		if err != nil {
			x.broken = err
		}
	}()
	defer runtime.Contain(&err)
	if x.answered {
		return nil
	}
	if x.interim++; x.interim > informationLimit {
		return errHints
	}
	if status == http.StatusContinue {
		x.holdsBack.wanted()
		return nil // the surface says it itself, when the body is first read
	}
	if !writable(http.Header(header)) {
		return http1.ErrMalformed
	}
	h := http.Header(header).Clone()
	x.cleanAnswer(h, status)
	x.declare(runtime.ChangeHop, "Connection") // net/http has taken out one that says close
	x.scrubHead(h)
	if err := x.out.Informational(status, h); err != nil {
		return callerGone{err}
	}
	return nil
}

// interrupted reports whether a 1xx answer was passed on: the upstream has begun.
func (x *exchange) interrupted() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.interim > 0
}

// settle ends the passing on of 1xx answers.
func (x *exchange) settle() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.answered = true
}

// broke closes an answer after a 1xx that could not be passed on.
func (x *exchange) broke(resp *http.Response) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.broken != nil {
		_ = resp.Body.Close()
	}
	return x.broken
}
