//lint:file-ignore SA1019 what net/http has instead dials by itself and hides the connections; which one a stream takes is ours to say

package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/runtime"
)

// Bounds of one HTTP/2 connection to an upstream. The windows are what may
// arrive for callers that do not read: of one answer, and of all on the
// connection together, so that sixteen of them do not hold up the others.
const (
	receiveStream = 4 << 20
	receiveConn   = 64 << 20
	receiveFrame  = 64 << 10 // a server that writes so much at a time need not cut it: four of 16 KiB cost an eighth more
)

// errSpeaksH2 is the result of a dial for HTTP/1.1 that became a connection of
// HTTP/2; the pool has it, and the request goes there.
var errSpeaksH2 = errors.New("the upstream chose HTTP/2")

// origin is what connections are shared by.
type origin struct {
	trust     trust
	authority string
}

// pool knows the HTTP/2 connections of every origin, and which origins have
// none because they speak HTTP/1.1. It is the one place that is asked before a
// request to an https origin goes out. It is safe for concurrent use.
type pool struct {
	doors     map[trust]*door
	transport *http2.Transport
	clock     func() time.Time
	idle      time.Duration // of a write
	pace      pace

	wire  func(*link, spot) *wire // makes one for callers of HTTP/1.1
	quiet sync.Map                // origin → *wire: the one of HTTP/2 that they take turns on

	mu      sync.Mutex
	origins map[origin]*known
	swept   time.Time
}

// way is where a request goes: to a peer that keeps a stream for it, or over
// HTTP/1.1, with a connection that was just dialled when there is one.
type way struct {
	peer  *peer
	fresh *link
}

func newPool(o *Options, doors map[trust]*door) (*pool, error) {
	transport, err := http2.ConfigureTransports(&http.Transport{
		DisableCompression:     true,
		IdleConnTimeout:        keptIdle,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: headLimit,
		HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: receiveFrame, MaxReceiveBufferPerStream: receiveStream, MaxReceiveBufferPerConnection: receiveConn,
			// The time of a write is the outbox's, and asking whether the upstream is there the pulse's.
		},
	})
	if err != nil {
		return nil, err
	}
	// It marks no field as one that may hold a credential. A table that no field fits in keeps
	// all out of the upstream's, and out of memory after a lock; 0 would be 4,096.
	transport.MaxEncoderHeaderTableSize = 1
	return &pool{doors: doors, transport: transport, clock: o.Clock, idle: o.IdleTimeout, pace: commonPace, origins: map[origin]*known{}}, nil
}

// find returns the way to an origin and dials if it must. A dial is shared by
// all who ask while it lasts, and goes on when they leave. A call of gRPC goes over
// HTTP/2 also where HTTP/1.1 is required.
func (p *pool) find(ctx context.Context, o origin, grpc bool) (way, error) {
	const dials = 4 // a server that takes no stream on a new connection takes none on the next
	var last *attempt
	for vain := 0; ; {
		w, next := p.look(ctx, o, grpc)
		if next == nil {
			return w, nil
		}
		if last != nil && !p.brought(last) {
			vain++
		}
		if last = next; vain == dials {
			p.part(next)
			return way{}, errors.New("the upstream takes no streams on a new connection")
		}
		select {
		case <-next.done:
		case <-ctx.Done():
			p.part(next)
			return way{}, ctx.Err()
		}
		if next.err != nil {
			return way{}, next.err
		}
		select {
		case fresh := <-next.h1:
			return way{fresh: fresh}, nil
		default:
		}
	}
}

// brought reports whether an attempt that has ended brought a connection that took a stream.
func (p *pool) brought(a *attempt) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return a.peer != nil && a.peer.taken
}

// look returns the way that is known, or the attempt to wait for: a dial, or the settings
// of a connection that is new.
func (p *pool) look(ctx context.Context, o origin, grpc bool) (way, *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	k := p.known(o)
	if !grpc && k.heeded(now) {
		return way{}, nil
	}
	var young *peer
	for _, peer := range k.peers {
		if peer.waits() {
			young = peer
		} else if peer.ReserveNewRequest() {
			peer.reserved()
			return way{peer: peer}, nil
		}
	}
	if young != nil {
		return way{}, young.settings
	}
	if len(k.peers) == 0 && !k.h1.IsZero() {
		k.h1 = now
		return way{}, nil
	}
	if k.dial == nil {
		k.dial = newAttempt()
		go p.dial(context.WithoutCancel(ctx), o, k.dial)
	}
	k.dial.waiting++
	return way{}, k.dial
}

// dial makes one attempt.
func (p *pool) dial(ctx context.Context, o origin, a *attempt) {
	a.err = p.introduce(ctx, o, a)
	p.mu.Lock()
	if k := p.origins[o]; k != nil && k.dial == a {
		k.dial = nil
	}
	p.mu.Unlock()
	close(a.done)
}

// introduce makes the connection of one attempt.
func (p *pool) introduce(ctx context.Context, o origin, a *attempt) (err error) {
	defer runtime.Contain(&err)
	conn, err := p.doors[o.trust].shake(ctx, o.authority, protocolH2, protocolH1)
	switch {
	case err != nil:
		return err
	case conn.protocol == protocolH2:
		a.peer, err = p.adopt(o, conn)
		return err
	}
	p.noteH1(o)
	a.h1 <- conn
	return nil
}

// stays makes a connection of HTTP/2 the one that callers of HTTP/1.1 take turns on,
// unless the origin has one; leaves ends that.
func (p *pool) stays(o origin, w *wire) { p.quiet.LoadOrStore(o, w) }

func (p *pool) leaves(o origin, w *wire) { p.quiet.CompareAndDelete(o, w) }

// first returns a connection to an origin of which a caller of HTTP/1.1 does not know
// what it speaks, or nil when the dial that it shared with others was for one of them.
func (p *pool) first(ctx context.Context, o origin) (*wire, error) {
	dial := p.meet(ctx, o)
	select {
	case <-dial.done:
	case <-ctx.Done():
		p.part(dial)
		return nil, ctx.Err()
	}
	select {
	case w := <-dial.wire:
		return w, nil
	default:
		return nil, dial.err
	}
}

// meet returns the dial that all such callers share.
func (p *pool) meet(ctx context.Context, o origin) *attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known(o)
	if k.first == nil {
		k.first = newAttempt()
		go p.dialFirst(context.WithoutCancel(ctx), o, k.first)
	}
	k.first.waiting++
	return k.first
}

// dialFirst makes one attempt for callers of HTTP/1.1.
func (p *pool) dialFirst(ctx context.Context, o origin, a *attempt) {
	a.err = p.introduceFirst(ctx, o, a)
	p.mu.Lock()
	if k := p.origins[o]; k != nil && k.first == a {
		k.first = nil
	}
	p.mu.Unlock()
	close(a.done)
}

// introduceFirst makes the connection of one attempt for callers of HTTP/1.1.
func (p *pool) introduceFirst(ctx context.Context, o origin, a *attempt) (err error) {
	defer runtime.Contain(&err)
	conn, err := p.doors[o.trust].shake(ctx, o.authority, protocolH2, protocolH1)
	if err != nil {
		return err
	}
	if conn.protocol != protocolH2 {
		p.noteH1(o)
	}
	a.wire <- p.wire(conn, spot{o, "https"})
	return nil
}

func (p *pool) remove(o origin, gone *peer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.origins[o]; k != nil {
		k.peers = slices.DeleteFunc(k.peers, func(c *peer) bool { return c == gone })
	}
}

// sweep forgets the origins that nothing is known of any more. The caller holds
// the lock.
func (p *pool) sweep(now time.Time) {
	if now.Sub(p.swept) < remembered/10 {
		return
	}
	p.swept = now
	for o, k := range p.origins {
		if len(k.peers) == 0 && k.dial == nil && k.first == nil && now.Sub(k.h1) > remembered && !k.demands(now) {
			delete(p.origins, o)
		}
	}
}

// close drops the connections without streams; the others close after their
// last one.
func (p *pool) close() {
	p.mu.Lock()
	var peers []*peer
	for _, k := range p.origins {
		peers = append(peers, k.peers...)
	}
	p.mu.Unlock()
	for _, c := range peers {
		c.SetDoNotReuse()
		if state := c.State(); state.StreamsActive+state.StreamsReserved+state.StreamsPending == 0 {
			_ = c.ClientConn.Close()
		}
	}
}
