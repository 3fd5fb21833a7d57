package http2

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/kimbap-run/kimbap/proxy/http1"
)

// payloadMost is the most that one of our frames of data holds, in bytes: with its head
// it is one record of TLS.
const payloadMost = 16<<10 - frameHead

// Then is what follows something that is sent.
type Then int

// What may follow.
const (
	More    Then = iota // something, some time: what there is leaves now
	Soon                // something, at once, or the end: they leave together
	Maybe               // something, at once most of the time: they leave together if it comes soon
	Nothing             // this is the end of the answer
)

// Errors of answers that are written in the wrong order. They are the handler's.
var (
	errStarted    = errors.New("http2: the answer was started before")
	errNotStarted = errors.New("http2: the answer was not started, or has ended")
)

// Informational sends a 1xx answer (RFC 9110 section 15.2).
func (st *Stream) Informational(status int, header http.Header) error {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	err := st.queue()
	if st.status != 0 { // maybe while this waited
		return errStarted
	}
	if err != nil {
		return err
	}
	c.writeHead(st.id, status, header, nil, false)
	c.flush()
	return st.err
}

// Start begins the answer with its status and fields, in the order that order names
// them, as [http1.Each] does.
func (st *Stream) Start(status int, header http.Header, order []string, then Then) error {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.status != 0 {
		return errStarted
	}
	err := st.queue()
	if st.status = status; err != nil {
		return err
	}
	c.writeHead(st.id, status, header, order, then == Nothing)
	st.sent(then)
	return st.err
}

// Write sends bytes of the body. It returns when they were written to the network or lie
// with what is about to be.
func (st *Stream) Write(p []byte, then Then) (n int, err error) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.status == 0 || st.done {
		return 0, errNotStarted
	}
	for len(p) > n {
		m, err := st.wait(len(p) - n)
		if err != nil {
			return n, err
		}
		c.appendData(st, p[n:n+m], then == Nothing && n+m == len(p))
		n += m
	}
	if st.err != nil {
		return n, st.err
	}
	if then == Nothing && len(p) == 0 {
		c.appendData(st, nil, true)
	}
	st.sent(then)
	return n, st.err
}

// sent is told that something was appended, and what follows it. The caller holds mu.
func (st *Stream) sent(then Then) {
	if then == Nothing {
		st.done = true
		st.shut()
	}
	switch then {
	case Soon:
	case Maybe:
		st.c.soon()
	default:
		st.c.flush()
	}
}

// queue waits until there is room among what waits to be written. Heads and trailers wait
// too: windows do not bound them, and a client that reads nothing could ask for any number.
// The caller holds mu, which is free meanwhile.
func (st *Stream) queue() error {
	c := st.c
	for st.err == nil && c.ended == nil && len(c.out) >= outRoom {
		if c.writing {
			c.roomy.Wait()
		} else {
			c.flush()
		}
	}
	if st.err == nil { // maybe because it is closed already
		return c.ended
	}
	return st.err
}

// wait waits until some of n bytes of a body may be sent, and returns how many. The caller
// holds mu, which is free meanwhile.
func (st *Stream) wait(n int) (int, error) {
	c := st.c
	for {
		if err := st.queue(); err != nil {
			return 0, err
		}
		if m := min(int64(n), st.room, c.room, payloadMost); m > 0 {
			return int(m), nil
		}
		c.flush()
		for st.err == nil && min(st.room, c.room) <= 0 {
			if st.sending.since.IsZero() {
				st.sending.begin()
			}
			st.moved.Wait()
		}
		st.sending = patience{}
	}
}

// appendData appends a frame of data. The caller holds mu.
func (c *conn) appendData(st *Stream, p []byte, end bool) {
	var flags http2.Flags
	if end {
		flags = http2.FlagDataEndStream
	}
	c.lend(frameHead + len(p))
	c.out = append(appendFrameHead(c.out, len(p), http2.FrameData, flags, st.id), p...)
	st.room -= int64(len(p))
	c.room -= int64(len(p))
	if len(p) > 0 {
		c.replies = min(c.replies+1, mostReplies)
	}
}

// End ends the answer, with trailer fields if there are any.
func (st *Stream) End(trailer http.Header) error {
	if len(trailer) == 0 {
		_, err := st.Write(nil, Nothing)
		return err
	}
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.status == 0 || st.done {
		return errNotStarted
	}
	if err := st.queue(); err != nil {
		return err
	}
	c.writeHead(st.id, 0, trailer, nil, true)
	st.sent(Nothing)
	return st.err
}

// Reset breaks the answer off, such that the client cannot take it for complete.
func (st *Stream) Reset() { st.breakOff(http2.ErrCodeInternal) }

// Refuse says that nothing was done for the request: clients may send it again by themselves
// (RFC 9113 section 8.7). It is for before Start.
func (st *Stream) Refuse() { st.breakOff(http2.ErrCodeRefusedStream) }

func (st *Stream) breakOff(code http2.ErrCode) {
	c := st.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !st.done {
		st.reset(code, errOver)
		c.flush()
	}
}

// writeHead appends a field block, without a status that of trailers. The caller holds mu.
func (c *conn) writeHead(id uint32, status int, header http.Header, order []string, end bool) {
	c.block.Reset()
	if status != 0 {
		_ = c.enc.WriteField(hpack.HeaderField{Name: ":status", Value: strconv.Itoa(status)}) // to memory, as all of it
	}
	http1.Each(header, order, func(name, value string) { c.writeField(lower(name), value) })
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		part := c.block.Next(firstFrame)
		if c.block.Len() == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.lend(frameHead + len(part))
		c.out = append(appendFrameHead(c.out, len(part), kind, flags, id), part...)
		if flags.Has(http2.FlagHeadersEndHeaders) {
			break
		}
		kind, flags = http2.FrameContinuation, 0
	}
	if c.block.Cap() > firstFrame { // a connection may rest for long behind a large head
		c.block = bytes.Buffer{}
	}
}

// writeField appends a field to the block. The encoder keeps room for the longest that it has
// written, so one that does not fit into its table is written as it is, behind the first,
// where the encoder says how large the table is (RFC 7541 section 6.2.2).
func (c *conn) writeField(name, value string) {
	if len(name)+len(value) <= tableSize || c.block.Len() == 0 {
		_ = c.enc.WriteField(hpack.HeaderField{Name: name, Value: value})
		return
	}
	c.block.WriteByte(0)
	for _, text := range [...]string{name, value} {
		c.writeLength(len(text))
		c.block.WriteString(text)
	}
}

// writeLength appends the length of a string that is not compressed (RFC 7541 section 5.1).
func (c *conn) writeLength(n int) {
	const prefix = 1<<7 - 1
	if n < prefix {
		c.block.WriteByte(byte(n))
		return
	}
	c.block.WriteByte(prefix)
	for n -= prefix; n >= 1<<7; n >>= 7 {
		c.block.WriteByte(byte(n) | 1<<7)
	}
	c.block.WriteByte(byte(n))
}

// lowerNames are the names of fields that most answers have.
var lowerNames = func() map[string]string {
	m := map[string]string{}
	for _, name := range strings.Fields(`Accept-Ranges Access-Control-Allow-Credentials Access-Control-Allow-Origin
		Access-Control-Expose-Headers Age Alt-Svc Cache-Control Content-Disposition Content-Encoding Content-Language
		Content-Length Content-Range Content-Security-Policy Content-Type Date Etag Expires Grpc-Encoding Grpc-Message
		Grpc-Status Kimbap-Error Last-Modified Link Location Nel Referrer-Policy Report-To Retry-After Server Set-Cookie
		Strict-Transport-Security Trailer Vary Via Www-Authenticate X-Content-Type-Options X-Frame-Options
		X-Ratelimit-Limit X-Ratelimit-Remaining X-Ratelimit-Reset X-Request-Id X-Xss-Protection`) {
		m[name] = strings.ToLower(name)
	}
	return m
}()

// lower is a field name as HTTP/2 has it.
func lower(name string) string {
	if known, ok := lowerNames[name]; ok {
		return known
	}
	return strings.ToLower(name)
}
