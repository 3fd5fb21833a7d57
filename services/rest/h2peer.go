//lint:file-ignore SA1019 what net/http has instead dials by itself and hides the connections; which one a stream takes is ours to say

package rest

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/internal/system"
	"github.com/kimbap-run/kimbap/runtime"
	"github.com/kimbap-run/kimbap/services/rest/outbox"
)

// peer is one HTTP/2 connection.
//
// How many streams it takes is known with its settings, which come a moment after it was
// made. Until then it has one request at a time, and others wait: golang.org/x/net would take
// a hundred, and have those that are too many wait for the end of others instead of for
// another connection, which may be for ever.
type peer struct {
	*http2.ClientConn
	pool    *pool
	address string
	private bool
	pulse   *pulse
	asked   atomic.Int32 // requests that wait for the head of their answer
	crowd   atomic.Int64 // when there were several of them, of system.Moment; 0: never
	greeted atomic.Bool  // its settings have come, or never will

	// Under the pool's lock.
	taken    bool     // by a request, at some time
	busy     bool     // with one before its settings have come
	settings *attempt // ends when they have come, or the one request is over
}

// adopt makes a connection that chose HTTP/2 one of the origin's.
func (p *pool) adopt(o origin, conn *link) (*peer, error) {
	own := &peer{pool: p, address: conn.address, private: conn.private, settings: newAttempt()}
	own.settings.peer = own
	closing := &closing{Conn: outbox.New(conn.Conn, p.idle, own.crowded), below: conn.Conn, then: func() { p.remove(o, own); own.greet() }}
	own.pulse = &closing.pulse
	own.pulse.pace = p.pace
	cc, err := p.transport.NewClientConn(closing)
	if err != nil {
		_ = closing.Close()
		return nil, err
	}
	own.ClientConn = cc
	closing.use(own)
	own.pulse.begin(cc, func() { cc.SetDoNotReuse(); _ = closing.Close() })
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.known(o)
	k.h1 = time.Time{}
	if !closing.closed() {
		k.peers = append(k.peers, own)
	}
	return own, nil
}

// waits reports whether the next request has to wait for the settings. The caller holds the
// pool's lock.
func (c *peer) waits() bool { return c.busy && !c.greeted.Load() }

// reserved is told of a request that goes here. The caller holds the pool's lock.
func (c *peer) reserved() { c.taken, c.busy = true, true }

// listen is called before the connection is read: what was read before has been acted on.
func (c *peer) listen() {
	if !c.greeted.Load() && c.State().MaxConcurrentStreams > 0 {
		c.greet()
	}
}

// greet lets in all for whom there is room.
func (c *peer) greet() {
	if c.greeted.CompareAndSwap(false, true) {
		c.pool.mu.Lock()
		defer c.pool.mu.Unlock()
		close(c.settings.done)
	}
}

// crowdLasts is how long several requests at a time are taken to go on.
const crowdLasts = 10 * time.Millisecond

// ask counts a request until it is answered.
func (c *peer) ask(grpc bool) {
	if c.pulse.fresh.Store(true); grpc {
		c.pulse.grpc.Store(true)
	}
	if c.asked.Add(1) > 1 {
		c.crowd.Store(system.Moment(time.Now()))
	}
}

// answered is told of its end. If it came before the settings, and its caller had not left,
// they never will, and the others go to another connection; else it is the turn of the next.
func (c *peer) answered(left bool) {
	c.asked.Add(-1)
	c.listen() // what came in one piece with an answer was not heard yet
	switch {
	case c.greeted.Load():
		return
	case !left:
		c.SetDoNotReuse()
		c.greet()
		return
	}
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.busy = false; !c.greeted.Load() {
		close(c.settings.done)
		c.settings = newAttempt()
		c.settings.peer = c
	}
}

// crowded reports whether several requests are under way, or were just now.
func (c *peer) crowded() bool {
	at := c.crowd.Load()
	return at != 0 && system.Moment(time.Now())-at < int64(crowdLasts)
}

// closing is a connection that says when it was closed.
type closing struct {
	net.Conn
	below net.Conn // the outbox
	then  func()
	peer  atomic.Pointer[peer] // whose it is, once that is there

	pulse pulse
	mu    sync.Mutex
	done  bool
}

// use names the peer. Its settings may have come before.
func (c *closing) use(own *peer) {
	c.peer.Store(own)
	own.listen()
	if c.closed() {
		own.greet()
	}
}

// Read implements [net.Conn], for a goroutine of golang.org/x/net.
func (c *closing) Read(p []byte) (n int, err error) {
	defer runtime.Contain(&err)
	if own := c.peer.Load(); own != nil {
		own.listen()
	}
	n, err = c.Conn.Read(p)
	c.pulse.read(p[:n])
	return n, err
}

// Close implements [net.Conn]. The caller may hold locks of the connection's
// owner, so that the pool hears of it from another goroutine, and no farewell in TLS is
// waited for.
func (c *closing) Close() error {
	c.mu.Lock()
	first := !c.done
	c.done = true
	c.mu.Unlock()
	if first {
		c.pulse.end()
		go c.then()
	}
	cut(c.below)
	return c.Conn.Close()
}

func (c *closing) closed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}
