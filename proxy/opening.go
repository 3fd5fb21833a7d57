package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A CONNECT goes from the relay engine to goproxy without net/http's server in
// between, whose connection, two goroutines and second parsing of the head cost a
// new connection a tenth of the time.

// opening is what goproxy and our hook answer a CONNECT on. Most take the
// connection; what a refusal writes is kept until they are done.
type opening struct {
	page
	r      *relay
	taken  bool
	opened *conn // the inside of a tunnel, for the relay to go on with
}

var _ http.Hijacker = (*opening)(nil)

// asksTunnel returns the CONNECT that a head is. What is wrong, or more than a
// head, is net/http's: nil.
func (r *relay) asksTunnel(raw []byte) *http.Request {
	h, header, _, err := parseWhole(raw, r.s.o.Limits.HeaderFields)
	if err != nil || r.c.checkRouting(h) != nil || h.method != http.MethodConnect ||
		h.minor == 0 || h.chunked || h.length > 0 || h.upgrade || len(header["Expect"]) > 0 {
		return nil
	}
	q := &http.Request{
		Method: h.method, URL: &url.URL{Host: h.target}, Host: h.host, RequestURI: h.target,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Body: http.NoBody, Close: h.close,
	}
	return q.WithContext(context.WithValue(r.ctx, connKey{}, r.c))
}

// connect serves a CONNECT, and reports whether another request may follow.
func (r *relay) connect(q *http.Request) (more bool) {
	o := &opening{page: page{header: http.Header{}}, r: r}
	defer func() {
		p := recover() // logged already, and answered if nothing had been
		if o.taken {
			r.handed, r.opened = true, o.opened
			if p != nil {
				_ = r.c.Close()
			}
			return
		}
		r.watch.end()
		more = o.settle(q.Close || p != nil)
	}()
	r.watch.begin(nil)
	r.s.ServeHTTP(o, q)
	return false
}

// Hijack implements [http.Hijacker]. The connection is not the engine's any more.
func (o *opening) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if o.taken || o.status != 0 {
		return nil, nil, http.ErrHijacked
	}
	o.taken = true
	o.r.watch.end()
	o.r.s.relays.leave(o.r) // a drain does not wait for it
	_ = o.r.c.SetDeadline(time.Time{})
	return o.r.c, bufio.NewReadWriter(o.r.br, nil), nil
}

// Flush implements [http.Flusher]: a refusal leaves whole.
func (o *opening) Flush() {}

// settle writes the refusal and reports whether the connection goes on: not when
// the client has sent bytes for the tunnel it hoped for.
func (o *opening) settle(last bool) (more bool) {
	if o.status == 0 {
		return false
	}
	last = last || o.header.Get("Connection") == "close" || o.r.br.Buffered() > 0 || o.r.ctx.Err() != nil
	a := &relayed{r: o.r, method: http.MethodConnect, minor: 1, close: last, left: -1}
	a.status = o.status
	o.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	o.header.Set("Content-Length", strconv.Itoa(o.body.Len()))
	err := a.begin(o.status, o.header, nil)
	if err == nil {
		_, err = a.Write(o.body.Bytes())
	}
	a.settle(err)
	return !a.close
}
