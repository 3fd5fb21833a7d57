package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"

	"golang.org/x/net/http2"
)

// overH2 sends the message on a connection of HTTP/2 that keeps a stream for it.
// Again says that the upstream has not acted on the request and will not.
func (x *exchange) overH2(ctx context.Context, c *peer) (resp *http.Response, again bool, err error) {
	x.conn.Store(nil)
	x.reached = true
	x.result.Address, x.result.Private = c.address, c.private
	x.result.Used = x.message.used
	var early interims
	early.pass = x.information
	trace := &httptrace.ClientTrace{Got1xxResponse: early.add}
	request, err := x.message.request(httptrace.WithClientTrace(ctx, trace), &x.sent, true)
	if err != nil { // cannot be: the message was checked; the stream goes back with the connection
		c.SetDoNotReuse()
		c.greet()
		return nil, false, err
	}
	if m := x.message; m.body != nil && m.whole == nil && m.length <= smallSize && x.sent.room == nil {
		x.sent.keepIn(x.b.head())
	}
	if x.message.body != nil {
		x.sent.heeded.begin(x, trace)
		defer x.sent.heeded.end()
	}
	c.ask(x.message.grpc())
	resp, err = c.RoundTrip(request)
	c.answered(ctx.Err() != nil)
	early.close()
	if err != nil {
		return nil, unprocessed(err), x.cause(err)
	}
	if len(resp.Status) < 4 || resp.Status[0] == '+' || resp.Status[3] != ' ' { // "+200" is a number to golang.org/x/net
		_ = resp.Body.Close()
		return nil, false, fmt.Errorf("%w: no status", errFrames)
	}
	if resp.StatusCode == http.StatusNotModified || resp.StatusCode == http.StatusNoContent {
		resp.Body = withoutContent{http.NoBody, resp.Body}
	}
	return resp, false, x.broke(resp)
}

// withoutContent is the body of a 304 or 204. The Content-Length of a 304 may say how
// long a 200 would be (RFC 9110 section 8.6), and some say one of a 204;
// golang.org/x/net/http2 takes that for a body that was cut off.
type withoutContent struct {
	io.Reader
	io.Closer
}

// unprocessed reports whether the upstream said, or the connection made
// certain, that the request was not acted on: it never left, its stream was
// refused, or it came after the last one of a GOAWAY (RFC 9113 section 8.7).
func unprocessed(err error) bool {
	var reset http2.StreamError
	if errors.As(err, &reset) {
		return reset.Code == http2.ErrCodeRefusedStream
	}
	// golang.org/x/net/http2 does not export these two.
	text := err.Error()
	return strings.HasSuffix(text, "client conn not usable") || strings.HasSuffix(text, "graceful shutdown GOAWAY")
}

// interims passes 1xx answers on from a goroutine of its own, which is there
// while there are any. The goroutine that reads the connection for all streams
// must not wait for one caller.
type interims struct {
	pass func(status int, header textproto.MIMEHeader) error

	mu      sync.Mutex
	waiting []interim
	size    int // of their fields, bytes
	count   int
	ended   bool
	idle    chan struct{} // closed when the goroutine has ended; nil: none was there
	running bool
}

type interim struct {
	status int
	header textproto.MIMEHeader
	size   int
}

// add takes one 1xx answer.
func (i *interims) add(status int, header textproto.MIMEHeader) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ended {
		return nil
	}
	next := interim{status, header, 0}
	for name, list := range header {
		for _, value := range list {
			next.size += len(name) + len(value)
		}
	}
	// No window bounds them, so no more of them wait for a caller than fit into one head.
	if i.count++; i.count > informationLimit || len(i.waiting) > 0 && i.size+next.size > headLimit {
		return errHints
	}
	i.waiting, i.size = append(i.waiting, next), i.size+next.size
	if !i.running {
		i.running, i.idle = true, make(chan struct{})
		go i.run(i.idle)
	}
	return nil
}

func (i *interims) run(idle chan struct{}) {
	defer close(idle)
	for {
		i.mu.Lock()
		if len(i.waiting) == 0 {
			i.running = false
			i.mu.Unlock()
			return
		}
		next := i.waiting[0]
		i.waiting, i.size = i.waiting[1:], i.size-next.size
		i.mu.Unlock()
		_ = i.pass(next.status, next.header) // an error is kept by the exchange
	}
}

// close takes no more and returns when all have been passed on.
func (i *interims) close() {
	i.mu.Lock()
	i.ended = true
	idle := i.idle
	i.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
