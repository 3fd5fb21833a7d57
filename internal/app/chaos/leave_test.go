package chaos_test

import (
	"crypto/tls"
	"net"
)

// below returns the connection of TCP under whatever is on it.
func below(c net.Conn) *net.TCPConn {
	for {
		switch inner := c.(type) {
		case *net.TCPConn:
			return inner
		case *tls.Conn:
			c = inner.NetConn()
		case interface{ Below() net.Conn }:
			c = inner.Below()
		default:
			panic("a connection of no kind that the test knows")
		}
	}
}

// leave ends a connection.
func leave(c net.Conn, how leaving) {
	tcp := below(c)
	switch how {
	case resets:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	case closesRaw:
		_ = tcp.Close()
	case halfClose:
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	default:
		_ = c.Close()
	}
}
