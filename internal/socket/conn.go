package socket

import (
	"net"
	"net/netip"
	"os"
	"time"
)

// Conn is a connection that has a place of a bounded listener. It gives that back when it
// is closed, and loses it when it does not read.
type Conn struct {
	net.Conn
	of     *bounded
	source netip.Prefix

	// Under of.mu.
	silent time.Time // since when no known caller uses it; zero: one does
	owner  string    // who that is, or was last

	// Of the answer that is under way, for the goroutine that writes it.
	written int           // bytes
	spent   time.Duration // on writing them
}

// piece is how much of an answer is written at a time, in bytes.
const piece = 64 << 10

// What the whole of an answer may take, however its pieces come: who takes each of them at
// the last moment would keep a place in memory for hours. Only the writing counts.
const (
	wholeLeast = time.Minute
	wholePace  = 64 << 10 // bytes in each second beside that
)

// Write implements [net.Conn]. It fails when nothing takes a piece in time, or all that
// was written of an answer took too long, which ends the connection.
func (c *Conn) Write(b []byte) (n int, err error) {
	for {
		part := b[n:min(n+piece, len(b))]
		left := wholeLeast + time.Duration(c.written+len(part))*time.Second/wholePace - c.spent
		if left <= 0 {
			return n, os.ErrDeadlineExceeded
		}
		if err := c.Conn.SetWriteDeadline(time.Now().Add(min(left, c.of.Patience))); err != nil {
			return n, err
		}
		began := c.of.Clock()
		took, err := c.Conn.Write(part)
		c.written, c.spent = c.written+took, c.spent+c.of.Clock().Sub(began)
		if n += took; err != nil || n == len(b) {
			return n, err
		}
	}
}

// Close implements [net.Conn].
func (c *Conn) Close() error {
	defer c.Leave()
	return c.Conn.Close()
}

// NetConn is the connection below, which still has its place.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Leave gives the place back, and returns the connection below.
func (c *Conn) Leave() net.Conn {
	c.of.changed(func() { delete(c.of.all, c) })
	return c.Conn
}

// cut closes at once: TLS would wait for who does not read its farewell.
func (c *Conn) cut() error {
	if below, is := c.Conn.(interface{ NetConn() net.Conn }); is {
		return below.NetConn().Close()
	}
	return c.Conn.Close()
}
