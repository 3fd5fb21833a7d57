package dial

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Client asks over HTTP: through the guard, over TLS that proves who answers, and no further than
// the address that was asked for. Timeout is for an answer. Trust is asked for each connection,
// which are few: a file that is missing now may be there then.
func (d Dialer) Client(timeout time.Duration, trust func() (*tls.Config, error)) *http.Client {
	dial := func(ctx context.Context, _, authority string) (net.Conn, error) {
		conn, _, _, err := d.Dial(ctx, authority, false, true) // loopback only where the address names it
		return conn, err
	}
	secure := func(ctx context.Context, network, authority string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout) // net/http goes on with a dial when nobody waits any more
		defer cancel()
		roots, err := trust()
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, authority)
		if err != nil {
			return nil, err
		}
		return handshake(ctx, conn, roots, authority)
	}
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dial, DialTLSContext: secure, DisableKeepAlives: true,
			ResponseHeaderTimeout: timeout, MaxResponseHeaderBytes: 32 << 10,
		},
	}
}

// handshake makes TLS of a connection, for HTTP/1.1.
func handshake(ctx context.Context, conn net.Conn, roots *tls.Config, authority string) (net.Conn, error) {
	mine := roots.Clone()
	mine.ServerName, _, _ = net.SplitHostPort(authority)
	mine.NextProtos = []string{"http/1.1"}
	secure := tls.Client(conn, mine)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
