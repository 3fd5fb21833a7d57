package server

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/kimbap-run/kimbap/runtime"
)

// peerKey is the key of a connection's peer in its context.
type peerKey struct{}

// withPeer asks the kernel once for each connection whose process is at the other
// end. On a system that does not tell it is nobody's, and a token must be shown.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*counted); ok {
		conn = c.Conn
	}
	return context.WithValue(ctx, peerKey{}, PeerOf(conn))
}

// PeerOf is whose process is at the other end of a socket, as the kernel says now;
// nobody's for a connection that is none.
func PeerOf(conn net.Conn) runtime.Peer {
	if socket, ok := conn.(*net.UnixConn); ok {
		return unixPeer(socket)
	}
	return runtime.Peer{}
}

func peerOf(ctx context.Context) runtime.Peer {
	peer, _ := ctx.Value(peerKey{}).(runtime.Peer)
	return peer
}

// piece is how much of an answer is written at a time, in bytes.
const piece = 64 << 10

// counted gives its place back when it is closed, and takes it from a caller that
// does not read.
type counted struct {
	net.Conn
	leave    chan struct{}
	patience time.Duration
	once     sync.Once
}

// Write implements [net.Conn]. It fails when nothing takes a piece in time, which
// ends the connection.
func (c *counted) Write(b []byte) (n int, err error) {
	for {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
			return n, err
		}
		part, err := c.Conn.Write(b[n:min(n+piece, len(b))])
		if n += part; err != nil || n == len(b) {
			return n, err
		}
	}
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	defer c.giveBack()
	return c.Conn.Close()
}

// giveBack gives the place back, once.
func (c *counted) giveBack() { c.once.Do(func() { <-c.leave }) }
