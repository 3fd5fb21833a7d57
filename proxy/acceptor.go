package proxy

import (
	"errors"
	"net"
	"sync"
	"time"
)

// acceptor makes the connections of a listener ours. When descriptors run out it waits
// for one to come free, keeps the tunnels that are there and says so once a
// minute.
type acceptor struct {
	net.Listener
	s      *Server
	closed chan struct{}
	once   sync.Once
	said   time.Time
}

// Accept implements [net.Listener].
func (a *acceptor) Accept() (net.Conn, error) {
	wait := 5 * time.Millisecond
	for {
		c, err := a.Listener.Accept()
		if err == nil {
			own, full := a.s.admit(c)
			if own != nil {
				return own, nil
			}
			if full {
				a.complain("a peer has as many connections as it may, and as many that wait", nil)
			}
			continue
		}
		var temporary interface{ Temporary() bool }
		if !errors.As(err, &temporary) || !temporary.Temporary() || errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		a.complain("cannot accept connections", err)
		select {
		case <-time.After(wait):
		case <-a.closed:
			return nil, net.ErrClosed
		}
		wait = min(2*wait, time.Second)
	}
}

// complain logs once a minute.
func (a *acceptor) complain(msg string, err error) {
	if now := a.s.o.Clock(); now.Sub(a.said) >= time.Minute {
		a.said = now
		a.s.o.Log.Warn().Err(err).Msg(msg)
	}
}

// Close implements [net.Listener].
func (a *acceptor) Close() error {
	a.once.Do(func() { close(a.closed) })
	return a.Listener.Close()
}
