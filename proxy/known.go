package proxy

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/kimbap-run/kimbap/runtime"
)

// Known is a connection whose other end said who it is before it came to the
// proxy: a kimbap elsewhere forwards it for one of its programs. A listener may
// give them to [Server.Serve]. The caller of all that is asked on it is this one;
// a Proxy-Authorization, which is for the other end, counts for nothing.
type Known struct {
	net.Conn
	Caller runtime.Caller
	Owner  string // for whom it counts among the connections that are no tunnels
	Left   func() // called once, when it is closed; may be nil

	abort  atomic.Bool // close without an end that could be taken for a complete one
	closed sync.Once
}

// CloseWrite ends what the other side reads.
func (k *Known) CloseWrite() error { return closeWrite(k.Conn) }

// SetLinger implements the like-named method of [net.TCPConn], also for what is
// below TLS: with 0 a close is then a reset, and TLS does not say goodbye.
func (k *Known) SetLinger(sec int) error {
	tcp, ok := k.below().(interface{ SetLinger(sec int) error })
	if !ok {
		return errors.ErrUnsupported
	}
	k.abort.Store(sec == 0)
	return tcp.SetLinger(sec)
}

// Close implements [net.Conn].
func (k *Known) Close() error {
	if k.Left != nil {
		defer k.closed.Do(k.Left)
	}
	if k.abort.Load() {
		return k.below().Close()
	}
	return k.Conn.Close()
}

func (k *Known) below() net.Conn {
	if secure, ok := k.Conn.(interface{ NetConn() net.Conn }); ok {
		return secure.NetConn()
	}
	return k.Conn
}
