package proxy

import (
	"net"
	"net/http"
	"sync"

	"github.com/kimbap-run/kimbap/runtime"
)

// visitors counts the connections of the listeners that are not tunnels: nobody
// on them need have said who they are. The count is per peer, so that one user
// of the machine takes no connection from another; all whom the kernel does not
// name are one peer.
type visitors struct {
	limits Limits

	mu    sync.Mutex
	peers map[runtime.Peer]int
}

func newVisitors(limits Limits) *visitors {
	return &visitors{limits: limits, peers: map[runtime.Peer]int{}}
}

// enter counts a connection of peer until leave, which may be called again. Not
// ok means that the peer has as many as it may.
func (v *visitors) enter(peer runtime.Peer) (leave func(), ok bool) {
	most := v.limits.Strangers
	if peer.Owner {
		most = v.limits.Connections
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.peers[peer] >= most {
		return nil, false
	}
	v.peers[peer]++
	return sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.peers[peer]--; v.peers[peer] == 0 {
			delete(v.peers, peer)
		}
	}), true
}

// admit makes an accepted connection one of ours. It closes the one too many
// and returns nil.
func (s *Server) admit(c net.Conn) *conn {
	own := newConn(c, c, s.o.Peer(c), nil, &s.o)
	leave, ok := s.visitors.enter(own.peer)
	if !ok {
		_ = c.Close()
		return nil
	}
	own.leave = leave
	return own
}

// dismiss ends the connection of a stranger with an answer that says it is not
// known, so that it does not stay to keep others out.
func dismiss(c *conn, h http.Header, e *runtime.Error) {
	if e.Code == runtime.CodeUnauthenticated && !c.peer.Owner {
		h.Set("Connection", "close")
	}
}
