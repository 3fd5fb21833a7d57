package rest

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/net/http2"
)

// An upstream that offers HTTP/2 may want HTTP/1.1 for some of what it serves, where a
// client has to authenticate its connection for instance, and says so with the code
// HTTP_1_1_REQUIRED (RFC 9113 section 7). It has not acted on the request then, which
// goes again, and its origin is offered HTTP/1.1 alone from then on.

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

// heed remembers what the upstream demands, if err is a demand.
func (x *exchange) heed(err error, o origin) {
	if err != nil && requiresH1(err) {
		x.b.pool.require(o)
	}
}

// require lets nothing more go to an origin over HTTP/2. What is under way is finished.
func (p *pool) require(o origin) {
	p.quiet.Delete(o)
	p.mu.Lock()
	k := p.known(o)
	peers := k.peers
	k.peers, k.only = nil, false
	k.h1 = p.clock()
	k.required = k.h1
	p.mu.Unlock()
	retire(peers)
}

// offered is which of the protocols a dial to an origin offers.
func (p *pool) offered(o origin, protocols []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.origins[o]
	if k == nil || k.required.IsZero() || len(protocols) == 1 {
		return protocols
	}
	now := p.clock()
	if now.Sub(k.required) > remembered {
		return protocols
	}
	k.required = now
	return slices.DeleteFunc(slices.Clone(protocols), func(name string) bool { return name == protocolH2 })
}

// retire lets connections end after the streams that they have.
func retire(peers []*peer) {
	for _, c := range peers {
		c.SetDoNotReuse()
		if state := c.State(); state.StreamsActive+state.StreamsReserved+state.StreamsPending == 0 {
			_ = c.ClientConn.Close()
		}
	}
}
