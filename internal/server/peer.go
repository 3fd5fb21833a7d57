package server

import (
	"context"
	"net"

	"github.com/kimbap-run/kimbap/internal/socket"
	"github.com/kimbap-run/kimbap/runtime"
)

// peerKey is the key of a connection's peer in its context.
type peerKey struct{}

// withPeer asks the kernel once for each connection whose process is at the other
// end. On a system that does not tell it is nobody's, and a token must be shown.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*socket.Conn); ok {
		conn = c.NetConn()
	}
	return context.WithValue(ctx, peerKey{}, PeerOf(conn))
}

// PeerOf is whose process is at the other end of a socket, as the kernel says now;
// nobody's for a connection that is none.
func PeerOf(conn net.Conn) runtime.Peer {
	if unix, ok := conn.(*net.UnixConn); ok {
		return unixPeer(unix)
	}
	return runtime.Peer{}
}

func peerOf(ctx context.Context) runtime.Peer {
	peer, _ := ctx.Value(peerKey{}).(runtime.Peer)
	return peer
}
