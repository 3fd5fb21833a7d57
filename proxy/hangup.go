package proxy

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// How long and for how many bytes a connection that ends is still read from.
const (
	hangUpTime  = 500 * time.Millisecond // without a byte, or in all while the proxy ends
	hangUpPause = 2 * time.Second        // between two bytes: its client is in the middle of something
	hangUpMost  = 30 * time.Second       // in all
	hangUpBytes = 1 << 30
)

// hangUp closes the connection such that the client can still read the answer,
// although we may not have read all it sent.
func (r *relay) hangUp() {
	defer func() { _ = r.c.Close() }()
	if r.ctx.Err() == nil && closeWrite(r.c.Conn) == nil {
		outlast(r.c.Conn, r.br, &r.s.relays.draining)
	}
}

// drain does that for a connection that net/http ends.
func (c *conn) drain() {
	if closeWrite(c.Conn) == nil {
		outlast(c.Conn, c.Conn, c.ending)
	}
}

// outlast reads what still comes behind our last answer, for a while: an end with bytes that
// nobody has read is a reset, which takes from the client what it has not got yet. Many read
// no answer before they have sent all of their body, among them Python's and so its SDKs:
// they would lose a refusal, and the reason with it.
func outlast(c net.Conn, from io.Reader, ending *atomic.Bool) {
	begun := time.Now()
	pause, buf := hangUpTime, make([]byte, 16<<10)
	for took := 0; took < hangUpBytes; {
		most := hangUpMost
		if ending.Load() {
			most = hangUpTime
		}
		left := most - time.Since(begun)
		if left <= 0 {
			return
		}
		_ = c.SetReadDeadline(time.Now().Add(min(pause, left)))
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		took, pause = took+n, hangUpPause
	}
}
