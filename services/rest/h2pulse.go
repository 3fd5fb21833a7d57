//lint:file-ignore SA1019 the connection is of the pool's transport

package rest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/kimbap-run/kimbap/internal/system"
)

// pace is how often an upstream that says nothing is asked whether it is there.
type pace struct {
	after time.Duration // of silence
	most  time.Duration // for its answer
	rare  time.Duration // between two asks that a server of gRPC takes for no attack
}

// commonPace is that of every pool.
var commonPace = pace{after: 30 * time.Second, most: 15 * time.Second, rare: 5*time.Minute + 10*time.Second}

// pulse asks with a PING whether the upstream of an HTTP/2 connection is there. Nobody else
// notices a path that is dead, which new requests would go on taking.
//
// golang.org/x/net would do so whenever nothing has come for a while. But a server of gRPC
// ends the connection, with all calls on it, at the fourth PING for which it had nothing to
// send itself, unless five minutes lie between two. A stream of events may be silent for
// longer than three asks. So a connection that carries gRPC is asked once in a silence, once
// more if another request has gone out since, and rarely after that: golang.org/x/net adds one
// to the end of a stream. If others go out and it may not be asked, it takes no more.
type pulse struct {
	pace
	cc    *http2.ClientConn
	lost  func()      // called when no answer came
	grpc  atomic.Bool // the connection has carried a call of gRPC
	fresh atomic.Bool // a request went out since it was last asked
	heard atomic.Int64
	spoke atomic.Bool // the upstream has sent a head or data since the last answer

	frame frameCount // of who reads

	mu    sync.Mutex
	timer *time.Timer // nil: not begun
	ended bool

	// Of the timer's goroutine.
	quick int   // asks in this silence
	asked int64 // when last, of system.Moment; 0: never
}

// begin starts to listen for a silence.
func (p *pulse) begin(cc *http2.ClientConn, lost func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.cc, p.lost = cc, lost
	p.heard.Store(system.Moment(time.Now()))
	p.timer = time.AfterFunc(p.after, p.look)
}

// end stops it. It may be called again.
func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// read is told of what came. It has one caller at a time.
func (p *pulse) read(b []byte) {
	p.heard.Store(system.Moment(time.Now()))
	if p.frame.speaks(b) {
		p.spoke.Store(true)
	}
}

// look asks, if there is a silence and it may, and looks again later.
func (p *pulse) look() {
	now := system.Moment(time.Now())
	next := p.after
	switch silence := time.Duration(now - p.heard.Load()); {
	case silence < p.after:
		next -= silence
	case p.may(now) && !p.answers():
		p.lost()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.timer.Reset(next)
	}
}

// may reports whether the upstream may be asked now, and counts that.
func (p *pulse) may(now int64) bool {
	if p.spoke.Swap(false) {
		p.quick, p.asked = 0, 0
	}
	switch {
	case !p.grpc.Load(), p.asked == 0, now-p.asked >= int64(p.rare):
	case !p.fresh.Load():
		return false
	case p.quick >= 2:
		p.cc.SetDoNotReuse()
		return false
	}
	p.fresh.Store(false)
	p.quick++
	p.asked = now
	return true
}

// answers asks.
func (p *pulse) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), p.most)
	defer cancel()
	err := p.cc.Ping(ctx)
	p.spoke.Store(false) // what came before the answer may have left before the upstream was asked
	return err == nil
}

// frameCount finds the frames in the bytes of HTTP/2.
type frameCount struct {
	head [9]byte
	have int // bytes of the head
	left int // of what follows it
}

// speaks reports whether a frame of data or a head begins among the next bytes.
func (c *frameCount) speaks(b []byte) (found bool) {
	for len(b) > 0 {
		if c.left > 0 {
			n := min(c.left, len(b))
			c.left, b = c.left-n, b[n:]
			continue
		}
		n := copy(c.head[c.have:], b)
		c.have, b = c.have+n, b[n:]
		if c.have < frameHead {
			return found
		}
		c.have, c.left = 0, int(c.head[0])<<16|int(c.head[1])<<8|int(c.head[2])
		kind := http2.FrameType(c.head[3])
		found = found || kind == http2.FrameData || kind == http2.FrameHeaders
	}
	return found
}
