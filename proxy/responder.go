package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kimbap-run/kimbap/proxy/detour"
	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// connectionEstablished answers a CONNECT.
const connectionEstablished = detour.Established

// responder gives the answer of a backend to a client of HTTP/1.1 that net/http serves as it came:
// the upstream's fields and no others, each write at once, an aborted answer
// never with a clean end.
type responder struct {
	w         http.ResponseWriter
	r         *http.Request
	control   *http.ResponseController
	idle      time.Duration
	body      *body       // of the request, nil for none
	seat      *place      // of the tunnel this answers, nil for requests
	upgrading *place      // of a request that asks for an upgrade
	dialled   *dialled    // handed over by the tunnel backend
	mustSpeak func() bool // whether silence in a tunnel would be refused; nil: it is not known

	status    int
	announced []string    // trailer names the client was told of
	switching http.Header // the head of a 101 or of a CONNECT's 200, until Upgrade
	left      int64       // of a known Content-Length; -1: unknown
	bodiless  bool
	held      bool // the head waits for the first bytes of the body
	untilEnd  bool // only the connection's end ends the body
	close     bool // the connection ends with this answer
	taken     *taken
	aborted   bool
}

var (
	_ runtime.Responder = (*responder)(nil)
	_ runtime.Holding   = (*responder)(nil)
)

func newResponder(w http.ResponseWriter, r *http.Request, limits Limits) *responder {
	return &responder{w: w, r: r, control: http.NewResponseController(w), idle: limits.IdleTimeout}
}

func (o *responder) sent() int { return o.status }

// Informational implements [runtime.Responder]. 100 is left to net/http, which
// says it when the body is first read; 1.0 clients know no 1xx.
func (o *responder) Informational(status int, header http.Header) error {
	if status <= http.StatusSwitchingProtocols || status > 199 || !o.r.ProtoAtLeast(1, 1) || o.status != 0 {
		return nil
	}
	h := o.w.Header()
	clear(h)
	copyFields(h, header)
	o.extend()
	o.w.WriteHeader(status)
	clear(h)
	return nil
}

// Start implements [runtime.Responder].
func (o *responder) Start(status int, header http.Header) error {
	if err := startable(o.status, status); err != nil {
		return err
	}
	o.status = status
	if status == http.StatusSwitchingProtocols || o.r.Method == http.MethodConnect && status/100 == 2 {
		o.switching = header
		if o.switching == nil {
			o.switching = http.Header{}
		}
		return nil
	}
	connOf(o.r.Context()).started.Store(true)
	if talksBeside(status) {
		o.body.talk()
	}
	if o.r.ContentLength != 0 {
		// Without it net/http swallows what is left of the request's body before
		// the answer, while the backend is still sending it.
		_ = o.control.EnableFullDuplex()
	}
	h := o.w.Header()
	clear(h)
	o.announced = http1.List(header["Trailer"])
	copyFields(h, header)
	for _, name := range [...]string{"Date", "Content-Type"} { // net/http would add them
		if _, sent := header[name]; !sent {
			h[name] = nil
		}
	}
	if status == http.StatusNotModified { // what would be the fields of a 200 is the upstream's to say
		for _, name := range [...]string{"Content-Length", "Content-Type"} {
			if list := header[name]; list != nil {
				delete(h, name)
				h[strings.ToLower(name)] = list // a spelling that net/http does not know, and so does not drop
			}
		}
	}
	o.frame(status, header)
	stream := o.left < 0 && !o.bodiless && !o.untilEnd
	beside := stream && talksBeside(status) // one that may answer the body piece by piece
	if o.close = !beside && o.body.outlasts(); o.close {
		h["Connection"] = []string{"close"}
	}
	if len(o.announced) > 0 {
		h["Trailer"] = []string{strings.Join(o.announced, ", ")}
	}
	o.extend()
	o.w.WriteHeader(status)
	if o.held = !o.bodiless && o.left >= 0 && o.left <= together; o.held || o.bodiless {
		return nil // with the body, in one record
	}
	return o.control.Flush()
}

// Hurry implements [runtime.Holding].
func (o *responder) Hurry() {
	if o.held {
		o.held = false
		o.extend()
		_ = o.control.Flush() // a client that is gone is found by what follows
	}
}

// startable refuses a second answer, and a status that no answer has, at which net/http
// would panic.
func startable(before, status int) error {
	switch {
	case before != 0:
		return fmt.Errorf("answer started twice: %d after %d", status, before)
	case !http1.IsStatus(status):
		return fmt.Errorf("no answer has the status %d", status)
	}
	return nil
}

// talksBeside reports whether the rest of a request's body may be part of a talk: its answer
// has begun, and is no refusal.
func talksBeside(status int) bool { return status < http.StatusMultipleChoices }

// together is the length of a body, in bytes, up to which the head waits for
// the body's first byte: two writes for a small answer cost more than the
// answer. Streams have no known length and do not wait.
const together = 16 << 10

// frame finds out how the body will end.
func (o *responder) frame(status int, header http.Header) {
	o.left = -1
	if n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		o.left = n
	}
	o.bodiless = http1.Bodiless(o.r.Method, status)
	o.untilEnd = o.left < 0 && !o.bodiless && !o.r.ProtoAtLeast(1, 1)
}

// Write implements [io.Writer].
func (o *responder) Write(p []byte) (int, error) {
	if o.bodiless || len(p) == 0 {
		return len(p), nil
	}
	o.held = false
	o.extend()
	n, err := o.w.Write(p)
	if o.left > 0 {
		o.left -= int64(n)
	}
	if err != nil {
		return n, err
	}
	if o.left != 0 { // the last write of a known length leaves with the end
		err = o.control.Flush()
	}
	return n, err
}

// extend gives the next write its time: a client that reads nothing for the
// whole idle time is gone.
func (o *responder) extend() { _ = o.control.SetWriteDeadline(time.Now().Add(o.idle)) }

// Trailer implements [runtime.Responder].
func (o *responder) Trailer(header http.Header) {
	h := o.w.Header()
	for name, values := range header {
		if names(o.announced, name) {
			h[name] = values
		} else {
			h[http.TrailerPrefix+name] = values
		}
	}
}

// Upgrade implements [runtime.Responder].
func (o *responder) Upgrade() (net.Conn, error) {
	if o.switching == nil {
		return nil, fmt.Errorf("no upgrade of an answer with status %d", o.status)
	}
	client, err := take(o.w)
	if err != nil {
		return nil, err
	}
	o.taken = client
	if o.upgrading != nil {
		if client.tunnel == nil {
			o.upgrading.hold(client)
		}
		o.upgrading.upgrade()
	}
	// net/http forgets the connection here; the end of the request, or of the
	// server, still ends it.
	context.AfterFunc(o.r.Context(), func() { _ = client.Close() })
	_ = client.SetDeadline(time.Time{})
	head := connectionEstablished
	if o.status == http.StatusSwitchingProtocols {
		head = upgradeHead(o.switching)
	}
	if _, err := client.Write([]byte(head)); err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// upgradeHead writes a 101 as the upstream sent it.
func upgradeHead(header http.Header) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 101 Switching Protocols\r\n")
	_ = http1.SpellWebSocket(header).WriteSubset(&b, map[string]bool{"Content-Length": true, "Transfer-Encoding": true, "Connection": true})
	b.WriteString("Connection: Upgrade\r\n\r\n")
	return b.String()
}

// Abort implements [runtime.Responder]. The connection breaks in finish, after
// the pipeline has written the outcome.
func (o *responder) Abort(error) { o.aborted = o.status != 0 }

// lingering is how long a client that asked before it sends a body, and was
// told no, may take to send it all the same and keep the connection.
const lingering = time.Second

// finish ends the answer: with a refusal if none was started, with a broken
// connection if it was aborted.
func (o *responder) finish(err error) {
	answered := o.status != 0 && o.switching == nil
	if o.body.finish(answered); !answered {
		o.close = o.body.outlasts()
	}
	if !o.close && o.body.last() { // the client was told that it goes on, and finds an end
		connOf(o.r.Context()).guard.become(readBroken)
	}
	if o.taken == nil && o.r.ContentLength != 0 { // net/http reads what is left of the body
		wait := o.idle
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded): // it had its time
			wait = 0
		case o.close: // the client is to see the answer although it still sends
			wait = hangUpTime
		case o.r.Header.Get("Expect") != "":
			wait = lingering
		}
		_ = o.control.SetReadDeadline(time.Now().Add(wait))
	}
	switch {
	case o.taken != nil:
		if o.aborted {
			o.taken.reset()
		}
	case o.aborted && o.switching == nil:
		if o.untilEnd {
			connOf(o.r.Context()).reset()
		}
		panic(http.ErrAbortHandler) // net/http then ends without a last chunk
	case err != nil:
		o.refuse(runtime.AsError(err))
	case o.status == 0 || o.switching != nil:
		o.refuse(&runtime.Error{Code: runtime.CodeInternal, Stage: runtime.StageExecute, Msg: "the backend gave no answer"})
	}
	if o.taken == nil && (o.close || o.body.last()) {
		c := connOf(o.r.Context())
		c.uploads.Store(o.body != nil && o.body.guard.fault() == nil && !errors.Is(err, os.ErrDeadlineExceeded))
		c.lingers.Store(true)
	}
}

// refuse answers with a problem document.
func (o *responder) refuse(e *runtime.Error) {
	o.status = e.Status()
	clear(o.w.Header())
	if o.close {
		_ = o.control.EnableFullDuplex() // else net/http waits for the rest of the body first
		o.w.Header().Set("Connection", "close")
	}
	dismiss(connOf(o.r.Context()), o.w.Header(), e)
	o.extend()
	runtime.WriteProblem(o.w, e, runtime.AskerOf(o.r.Header))
}

// hopFields are for one connection only (RFC 9110 section 7.6.1).
var hopFields = [...]string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info",
	"Proxy-Connection", "Transfer-Encoding", "Trailer", "Upgrade",
}

// copyFields copies what is end to end, field by field and value by value.
func copyFields(dst, src http.Header) {
	named := http1.List(src["Connection"])
	for name, values := range src {
		if !slices.Contains(hopFields[:], name) && !names(named, name) {
			dst[name] = values
		}
	}
}
