package rest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Times are how long upstreams are waited for. A zero one is its default.
type Times struct {
	DialTimeout   time.Duration // of a dial, and again of a TLS handshake; 0: 10 s
	HeaderTimeout time.Duration // from the request's last byte to the answer's head; 0: none
	IdleTimeout   time.Duration // of a body or a write that does not move; 0: 5 min
}

// never is a time that no exchange takes: what bounds it is its caller, whose leaving ends it, and
// the connection, which the kernel and HTTP/2 ask whether it is still there. A model may think for ten
// minutes before the first byte of its answer.
const never = 100 * 365 * 24 * time.Hour

func (t Times) withDefaults() (Times, error) {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&t.DialTimeout, 10 * time.Second}, {&t.HeaderTimeout, never}, {&t.IdleTimeout, 5 * time.Minute}} {
		if *d.field < 0 {
			return t, fmt.Errorf("rest: a timeout of %v: it must not be negative", *d.field)
		}
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t, nil
}

// lines are the upstream connections that were opened since the start, or since the last
// [Backend.Redial], and what is known of the upstreams. An exchange keeps to those that it
// began with, and leaves nothing in others.
type lines struct {
	o          *Options
	doors      map[trust]*door
	transports map[trust]*http.Transport // of net/http, for HTTP/1.1
	pool       *pool                     // of HTTP/2
	racks      racks                     // the relay engine's connections that are not in use
}

func newLines(o *Options) (*lines, error) {
	l := &lines{
		o: o, racks: racks{clock: o.Clock, most: int64(o.IdleConnections)},
		doors: map[trust]*door{}, transports: map[trust]*http.Transport{},
	}
	for _, t := range []trust{{false, false}, {false, true}, {true, false}, {true, true}} {
		d := &door{o: o, trust: t, tls: o.TLS.Clone()}
		d.tls.MinVersion = max(o.TLS.MinVersion, tls.VersionTLS12)
		l.doors[t], l.transports[t] = d, l.transport(d)
	}
	var err error
	if l.pool, err = newPool(o, l.doors); err != nil {
		return nil, fmt.Errorf("rest: HTTP/2: %w", err)
	}
	l.pool.wire = l.wireOf
	for _, d := range l.doors {
		d.pool = l.pool
	}
	return l, nil
}

// transport is net/http's client side without its conveniences. HTTP/2 stays
// off: which protocol a connection speaks, and who gets it, is the pool's to say.
func (l *lines) transport(d *door) *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            d.plain,
		DialTLSContext:         d.secure,
		DisableCompression:     true,
		ForceAttemptHTTP2:      false,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxIdleConns:           l.o.IdleConnections,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        keptIdle,
		ResponseHeaderTimeout:  l.o.HeaderTimeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: headLimit,
	}
}

// close drops the connections that no exchange is using.
func (l *lines) close() {
	for _, t := range l.transports {
		t.CloseIdleConnections()
	}
	l.racks.empty()
	l.pool.close()
}

// Redial keeps no connection for another request: the next ones are dialled anew, waited
// for as t says, and what they answer is searched as scrubStrict says, like
// [Options.ScrubStrict]. It is for when the dialer would not open all of them any more. An
// exchange that is under way ends on the connection that it has, which no other gets, and
// as it began.
func (b *Backend) Redial(t Times, scrubStrict bool) error {
	t, err := t.withDefaults()
	if err != nil {
		return err
	}
	o := b.o
	o.Times, o.ScrubStrict = t, scrubStrict
	fresh, err := newLines(&o)
	if err != nil {
		return errors.Join(err, errors.New("the upstream connections stay as they are"))
	}
	before := b.lines.Swap(fresh)
	before.racks.over.Store(true)
	before.close()
	return nil
}
