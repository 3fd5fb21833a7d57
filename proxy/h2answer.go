package proxy

import (
	"errors"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/proxy/http2"
	"github.com/kimbap-run/kimbap/runtime"
)

// streamed gives the answer of a backend to a client of HTTP/2 as it came: the upstream's
// fields and no others, each write at once, an aborted answer never with a clean end.
type streamed struct {
	s      *Server
	c      *conn
	st     *http2.Stream
	method string
	waits  atomic.Bool // the client waits for 100 (Continue)

	form     runtime.Form
	like     bool // form is known
	bare     bool // nothing follows the head
	status   int
	head     http.Header // that waits for the first bytes of the body; nil: it has left, or will soon
	left     int64       // of a known Content-Length; -1: unknown
	bodiless bool
	done     bool // the answer has ended
	trailer  http.Header
	aborted  bool
	asker    *asker // of a head that is kept no longer; nil: it is there
}

// asker is what a refusal looks at of the head of its request.
type asker struct {
	grpc bool
	of   runtime.Asker
}

func askerOf(h http.Header) asker { return asker{grpc: asksGRPC(h), of: runtime.AskerOf(h)} }

// letGo forgets the head and the body of a request that is refused before it counts as one of
// its principal's, whose number is bounded: the client may take the refusal late, and a head
// may be joined of cookies that cost it a byte each.
func (a *streamed) letGo() {
	h := a.st.Head
	a.st.Discard()
	kept := askerOf(h.Header)
	a.asker, h.Header, h.Host, h.Authority, h.Path = &kept, nil, nil, "", ""
}

var (
	_ runtime.Verbatim = (*streamed)(nil)
	_ runtime.Bare     = (*streamed)(nil)
)

func (a *streamed) sent() int { return a.status }

// errNoUpgrade is an upgrade of HTTP/2, which has none (RFC 9113 section 8.6).
var errNoUpgrade = errors.New("HTTP/2 has no upgrade")

// Informational implements [runtime.Responder]. 100 is said when the body is first read.
func (a *streamed) Informational(status int, header http.Header) error {
	if status <= http.StatusSwitchingProtocols || status > 199 || a.status != 0 {
		return nil
	}
	h := make(http.Header, len(header))
	copyFields(h, header)
	return a.st.Informational(status, h)
}

// Like implements [runtime.Verbatim].
func (a *streamed) Like(form runtime.Form) { a.form, a.like = form, true }

// NoBody implements [runtime.Bare].
func (a *streamed) NoBody() { a.bare = true }

// Hurry implements [runtime.Holding].
func (a *streamed) Hurry() { _ = a.begin(http2.More) }

// Start implements [runtime.Responder].
func (a *streamed) Start(status int, header http.Header) error {
	if err := startable(a.status, status); err != nil {
		return err
	}
	if status == http.StatusSwitchingProtocols {
		return errNoUpgrade
	}
	if header == nil {
		header = http.Header{}
	}
	announced := header["Trailer"]
	keepAnswer(header)
	if len(announced) > 0 {
		header["Trailer"] = announced
	}
	a.status, a.head = status, header
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		a.left = n
	}
	if a.bodiless = http1.Bodiless(a.method, status); status == http.StatusNoContent {
		delete(header, "Content-Length") // RFC 9110 section 8.6
	}
	if a.done = a.bodiless || a.bare; a.done {
		return a.begin(http2.Nothing)
	}
	switch {
	case a.left == 0 || a.form.Ready:
		return nil
	case !a.like && a.left > 0 && a.left <= together:
		return a.begin(http2.Maybe)
	}
	return a.begin(http2.More)
}

// begin sends a head that waits.
func (a *streamed) begin(then http2.Then) error {
	if a.head == nil {
		return nil
	}
	head := a.head
	a.head = nil
	return a.st.Start(a.status, head, a.form.Order, then)
}

// Write implements [io.Writer]. The last bytes of a known length leave with the end of the
// stream: that of HTTP/1.1 is known with them, of another the trailers are yet to come.
func (a *streamed) Write(p []byte) (int, error) {
	if a.bodiless || len(p) == 0 {
		return len(p), nil
	}
	if a.left >= 0 && int64(len(p)) > a.left {
		return 0, errTooMuch
	}
	if err := a.begin(http2.Soon); err != nil {
		return 0, err
	}
	then := http2.More
	if a.left >= 0 {
		if a.left -= int64(len(p)); a.left == 0 {
			then = http2.Soon
			if a.like {
				then, a.done = http2.Nothing, true
			}
		}
	}
	return a.st.Write(p, then)
}

// Trailer implements [runtime.Responder].
func (a *streamed) Trailer(header http.Header) { a.trailer = header }

// Upgrade implements [runtime.Responder].
func (a *streamed) Upgrade() (net.Conn, error) { return nil, errNoUpgrade }

// Abort implements [runtime.Responder]. The stream is reset in finish, after the pipeline
// has written the outcome.
func (a *streamed) Abort(error) { a.aborted = a.status != 0 }

// finish ends the answer: with a refusal if none was started, with a reset if it was
// aborted or is too short.
func (a *streamed) finish(err error) {
	switch {
	case a.aborted || a.status != 0 && !a.bodiless && a.left > 0:
		_ = a.begin(http2.Soon)
		a.st.Reset()
	case err != nil && a.status == 0:
		a.refuse(runtime.AsError(err))
	case a.status == 0:
		a.refuse(&runtime.Error{Code: runtime.CodeInternal, Stage: runtime.StageExecute, Msg: "the backend gave no answer"})
	case a.done:
	case a.head != nil && len(a.trailer) == 0:
		_ = a.begin(http2.Nothing)
	default:
		_ = a.begin(http2.Soon)
		_ = a.st.End(a.trailer)
	}
}

// refuse answers with a problem document, a call of gRPC with its status; what came too late
// for its tunnel with what has clients send it again on another one.
func (a *streamed) refuse(e *runtime.Error) {
	if errors.Is(e, errCloses) {
		a.status = e.Status()
		a.st.Refuse()
		return
	}
	if a.asker == nil {
		asks := askerOf(a.st.Head.Header)
		a.asker = &asks
	}
	p := page{header: http.Header{}}
	if a.asker.grpc {
		refuseGRPC(&p, e)
	} else {
		runtime.WriteProblem(&p, e, a.asker.of)
		p.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if unknown(e) && !a.c.peer.Owner {
		a.st.Last()
	}
	a.status = p.status
	if p.body.Len() == 0 || http1.Bodiless(a.method, p.status) {
		_ = a.st.Start(p.status, p.header, nil, http2.Nothing)
		return
	}
	if a.st.Start(p.status, p.header, nil, http2.Soon) == nil {
		_, _ = a.st.Write(p.body.Bytes(), http2.Nothing)
	}
}

// recover answers a panic with a 500 if there was no answer yet, and with a reset of the
// stream otherwise. The connection goes on.
func (a *streamed) recover() {
	p := recover()
	if p == nil {
		return
	}
	a.s.o.Log.Error().Interface("panic", p).Str("method", a.method).Bytes("stack", debug.Stack()).Msg("panic in the proxy")
	if a.status == 0 {
		a.refuse(panicError(p))
		return
	}
	a.st.Reset()
}
