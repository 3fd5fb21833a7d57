//lint:file-ignore SA1019 what net/http has instead dials by itself and hides the connections; which one a stream takes is ours to say

package rest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/outbox"
)

// Bounds of one HTTP/2 connection to an upstream. The windows are what may
// arrive for callers that do not read: of one answer, and of all on the
// connection together, so that sixteen of them do not hold up the others.
const (
	receiveStream = 4 << 20
	receiveConn   = 64 << 20
	receiveFrame  = 64 << 10         // a server that writes so much at a time need not cut it: four of 16 KiB cost an eighth more
	pingAfter     = 30 * time.Second // of silence while streams are open
	pingWait      = 15 * time.Second // for its answer
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

	wire  func(*link, spot) *wire // makes one for callers of HTTP/1.1
	quiet sync.Map                // origin → *wire: the one of HTTP/2 that they take turns on

	mu      sync.Mutex
	origins map[origin]*known
	swept   time.Time
}

// peer is one HTTP/2 connection.
type peer struct {
	*http2.ClientConn
	address string
	private bool
	asked   atomic.Int32 // requests that wait for the head of their answer
	crowd   atomic.Int64 // when there were several of them, of system.Moment; 0: never
}

// crowdLasts is how long several requests at a time are taken to go on.
const crowdLasts = 10 * time.Millisecond

// ask counts a request until it is answered.
func (c *peer) ask() {
	if c.asked.Add(1) > 1 {
		c.crowd.Store(system.Moment(time.Now()))
	}
}

func (c *peer) answered() { c.asked.Add(-1) }

// crowded reports whether several requests are under way, or were just now.
func (c *peer) crowded() bool {
	at := c.crowd.Load()
	return at != 0 && system.Moment(time.Now())-at < int64(crowdLasts)
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
			SendPingTimeout: pingAfter, PingTimeout: pingWait, // the time of a write is the outbox's
		},
	})
	if err != nil {
		return nil, err
	}
	return &pool{doors: doors, transport: transport, clock: o.Clock, idle: o.IdleTimeout, origins: map[origin]*known{}}, nil
}

// find returns the way to an origin and dials if it must. A dial is shared by
// all who ask while it lasts, and goes on when they leave. A call of gRPC goes over
// HTTP/2 also where HTTP/1.1 is required.
func (p *pool) find(ctx context.Context, o origin, grpc bool) (way, error) {
	const dials = 4 // a server that takes no stream on a new connection takes none on the next
	for try := 0; ; try++ {
		w, dial := p.look(ctx, o, grpc)
		if dial == nil {
			return w, nil
		}
		if try == dials {
			p.part(dial)
			return way{}, errors.New("the upstream takes no streams on a new connection")
		}
		select {
		case <-dial.done:
		case <-ctx.Done():
			p.part(dial)
			return way{}, ctx.Err()
		}
		if dial.err != nil {
			return way{}, dial.err
		}
		select {
		case fresh := <-dial.h1:
			return way{fresh: fresh}, nil
		default:
		}
	}
}

// look returns the way that is known, or the dial to wait for.
func (p *pool) look(ctx context.Context, o origin, grpc bool) (way, *attempt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock()
	k := p.known(o)
	if !grpc && k.heeded(now) {
		return way{}, nil
	}
	for _, peer := range k.peers {
		if peer.ReserveNewRequest() {
			return way{peer: peer}, nil
		}
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
		return p.adopt(o, conn)
	}
	p.noteH1(o)
	a.h1 <- conn
	return nil
}

// adopt makes a connection that chose HTTP/2 one of the origin's.
func (p *pool) adopt(o origin, conn *link) error {
	own := &peer{address: conn.address, private: conn.private}
	closing := &closing{Conn: outbox.New(conn.Conn, p.idle, own.crowded), then: func() { p.remove(o, own) }}
	cc, err := p.transport.NewClientConn(closing)
	if err != nil {
		_ = closing.Close()
		return err
	}
	own.ClientConn = cc
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known(o)
	k.h1 = time.Time{}
	if !closing.closed() {
		k.peers = append(k.peers, own)
	}
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

// closing is a connection that says when it was closed.
type closing struct {
	net.Conn
	then func()
	mu   sync.Mutex
	done bool
}

// Read implements [net.Conn], for a goroutine of golang.org/x/net.
func (c *closing) Read(p []byte) (n int, err error) {
	defer runtime.Contain(&err)
	return c.Conn.Read(p)
}

// Close implements [net.Conn]. The caller may hold locks of the connection's
// owner, so that the pool hears of it from another goroutine.
func (c *closing) Close() error {
	c.mu.Lock()
	first := !c.done
	c.done = true
	c.mu.Unlock()
	if first {
		go c.then()
	}
	return c.Conn.Close()
}

func (c *closing) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}
