package proxy

import (
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kimbap-run/kimbap/proxy/http1"
	"github.com/kimbap-run/kimbap/runtime"
)

// h2stream is one request of an HTTP/2 connection: the writer of its answer and
// the reader of its body, both watched. It implements the deadlines that
// [http.ResponseController] sets by doing nothing: the watch of the connection
// takes their place.
type h2stream struct {
	c       *h2conn
	w       http.ResponseWriter
	control *http.ResponseController
	body    io.ReadCloser
	started bool // a final head was written

	reading, writing atomic.Int64 // since when, Unix nanoseconds; 0: not now
}

// serveStream takes one stream through the pipeline. A panic is kept to it.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*h2conn)
	if !ok {
		http.Error(w, "not a connection of the proxy", http.StatusInternalServerError)
		return
	}
	stretch()
	s.active.Add(1)
	defer s.active.Done()
	st := &h2stream{c: c, w: w, control: http.NewResponseController(w), body: r.Body}
	c.enter(st)
	defer c.leave(st)
	defer s.recoverStream(st, r)
	if r.Body = st.reader(); r.ContentLength == 0 {
		r.Body = http.NoBody
	}
	s.exchange(st, r, c.conn)
}

// stretch makes the stack of a goroutine large enough for a request at once. Each
// stream has a new one, which would double it three times on the way down and
// copy more of it each time: a twentieth of the processor time of a stream.
//
//go:noinline
func stretch() {
	var room [12 << 10]byte
	goruntime.KeepAlive(&room)
}

// recoverStream answers a panic with a 500 if there was no answer yet, and with
// a reset of the stream otherwise. The connection goes on.
func (s *Server) recoverStream(st *h2stream, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is compared, as net/http does
		panic(p)
	}
	s.o.Log.Error().Interface("panic", p).Str("method", r.Method).Bytes("stack", debug.Stack()).Msg("panic in the proxy")
	if st.started {
		panic(http.ErrAbortHandler)
	}
	clear(st.Header())
	runtime.WriteProblem(st, runtime.AsError(fmt.Errorf("panic: %v", p)))
}

// Header implements [http.ResponseWriter].
func (st *h2stream) Header() http.Header { return st.w.Header() }

// WriteHeader implements [http.ResponseWriter].
func (st *h2stream) WriteHeader(status int) {
	st.started = st.started || status >= http.StatusOK
	defer began(&st.writing)()
	st.w.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (st *h2stream) Write(p []byte) (int, error) {
	st.writing.Store(time.Now().UnixNano())
	n, err := st.w.Write(p)
	st.writing.Store(0)
	return n, err
}

// FlushError sends what was written, for [http.ResponseController].
func (st *h2stream) FlushError() error {
	defer began(&st.writing)()
	return st.control.Flush()
}

// SetReadDeadline does nothing; see expire.
func (st *h2stream) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing; see expire.
func (st *h2stream) SetWriteDeadline(time.Time) error { return nil }

// EnableFullDuplex does nothing: a stream always is.
func (st *h2stream) EnableFullDuplex() error { return nil }

// reader is the request's body.
func (st *h2stream) reader() io.ReadCloser { return (*h2body)(st) }

// h2body is the reading side of a stream.
type h2body h2stream

// Read implements [io.Reader].
func (b *h2body) Read(p []byte) (int, error) {
	b.reading.Store(time.Now().UnixNano())
	n, err := b.body.Read(p)
	b.reading.Store(0)
	return n, err
}

// by gives the whole body a time, until the result is called.
func (b *h2body) by(end time.Time) (stop func() bool) {
	st := (*h2stream)(b)
	return time.AfterFunc(time.Until(end), func() { st.c.overdue(st) }).Stop
}

// Close implements [io.Closer].
func (b *h2body) Close() error { return b.body.Close() }

// expire ends a read or a write that has waited since before latest. The
// connection calls it while the stream's handler has not left.
func (st *h2stream) expire(latest time.Time) {
	past := time.Unix(1, 0)
	if since := st.reading.Load(); since != 0 && since < latest.UnixNano() {
		_ = st.control.SetReadDeadline(past)
	}
	if since := st.writing.Load(); since != 0 && since < latest.UnixNano() {
		_ = st.control.SetWriteDeadline(past)
	}
}

// began notes that something that may block has begun, until the result is called.
func began(since *atomic.Int64) func() {
	since.Store(time.Now().UnixNano())
	return func() { since.Store(0) }
}

// checkStream refuses the head of a stream for what [parseHead] refuses in a
// head of HTTP/1.1. Field names and values, the order and number of pseudo
// fields, fields of a connection and a Host that differs from :authority were
// checked by golang.org/x/net/http2, which resets such a stream.
func checkStream(r *http.Request, limits Limits) *runtime.Error {
	if !http1.IsToken(r.Method) {
		return badHead("the method is not a token")
	}
	if err := checkTarget(r.RequestURI); err != nil {
		return err
	}
	fields, bytes := len(r.Trailer), len(r.Method)+len(r.RequestURI)+len(r.Host)
	for name, values := range r.Header {
		fields += len(values)
		for _, value := range values {
			bytes += len(name) + len(value) + len(": \r\n")
		}
	}
	if fields > limits.HeaderFields {
		return tooLarge("the request has more than " + strconv.Itoa(limits.HeaderFields) + " header fields")
	}
	if bytes > limits.HeaderBytes {
		return tooLarge("the request head is over the limit")
	}
	return checkLength(r)
}

// checkLength refuses a Content-Length that is there twice, is no number, or
// differs from what the frames say (RFC 9113 section 8.1.1).
func checkLength(r *http.Request) *runtime.Error {
	given := r.Header["Content-Length"]
	if len(given) == 0 {
		return nil
	}
	if len(given) > 1 {
		return ambiguous("", "the field content-length is there more than once")
	}
	n, err := strconv.ParseUint(given[0], 10, 62)
	if err != nil {
		return ambiguous("", "Content-Length is not a number")
	}
	if r.ContentLength != int64(n) && r.Method != http.MethodHead {
		return badHead("Content-Length is not the length of the body")
	}
	return nil
}
