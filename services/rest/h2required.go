package rest

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// An upstream that offers HTTP/2 may want HTTP/1.1 for some of what it serves, where a
// client has to authenticate its connection for instance, and says so with the code
// HTTP_1_1_REQUIRED (RFC 9113 section 7). The request goes again then, as it does from
// browsers, and its origin is asked over HTTP/1.1 as long as it is asked. Calls of gRPC
// are not: they need HTTP/2, and a demand for HTTP/1.1 is an end of them like another.

// requiresH1 reports whether an error is the upstream's demand for HTTP/1.1.
func requiresH1(err error) bool {
	var reset http2.StreamError
	var gone goneAway
	return errors.As(err, &reset) && reset.Code == http2.ErrCodeHTTP11Required ||
		errors.As(err, &gone) && gone.code == http2.ErrCodeHTTP11Required ||
		strings.HasSuffix(err.Error(), "GOAWAY from server ErrCode:HTTP_1_1_REQUIRED") // of golang.org/x/net, which exports no type
}

// goneAway is a GOAWAY that left the stream of the exchange out.
type goneAway struct{ code http2.ErrCode }

func (g goneAway) Error() string { return "GOAWAY: " + g.code.String() }

// heed remembers what the upstream demands, if err is a demand that can be met, and
// reports whether it is.
func (x *exchange) heed(err error, o origin) bool {
	if err == nil || x.message.grpc() || !requiresH1(err) {
		return false
	}
	x.lines.pool.require(o)
	return true
}

// grpc reports whether the request is a call of gRPC.
func (m *message) grpc() bool {
	list := m.header["Content-Type"]
	return len(list) > 0 && strings.HasPrefix(list[0], "application/grpc")
}

// require notes that an origin demands HTTP/1.1. What is under way is finished.
func (p *pool) require(o origin) {
	p.quiet.Delete(o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known(o).required = p.clock()
}

// requires reports whether an origin demands HTTP/1.1, and that this is about to be heeded.
func (p *pool) requires(o origin) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.origins[o]
	return k != nil && k.heeded(p.clock())
}

// relent forgets the demand of an origin that does not speak what it demanded.
func (p *pool) relent(o origin) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known(o).required = time.Time{}
}

// heeded reports whether the demand is remembered, and remembers it for longer.
func (k *known) heeded(now time.Time) bool {
	if !k.demands(now) {
		return false
	}
	k.required = now
	return true
}

func (k *known) demands(now time.Time) bool {
	return !k.required.IsZero() && now.Sub(k.required) <= remembered
}
