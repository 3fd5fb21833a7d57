// Package peer asks the kernel whose a connection of this machine is: which user has the
// socket at its other end. Only Linux has a question that names one socket (sock_diag); it
// is asked anew for each connection, and nothing of an answer is kept.
//
// It guesses nothing. Whoever the kernel does not name is a foreign peer: one of another
// machine, one whose program has gone, and everybody where the kernel cannot be asked.
//
// Start reading at [Of].
package peer

import (
	"net"
	"net/netip"

	"github.com/kimbap-run/kimbap/runtime"
)

// Of asks the kernel who is at the other end of c. Only a connection
// between two loopback addresses has an answer; whatever cannot be answered is
// a foreign peer, and says so when it could not even be asked.
func Of(c net.Conn) runtime.Peer {
	remote, ok1 := addrPort(c.RemoteAddr())
	local, ok2 := addrPort(c.LocalAddr())
	if !ok1 || !ok2 || !remote.Addr().IsLoopback() || !local.Addr().IsLoopback() {
		return runtime.Peer{}
	}
	return socketOwner(remote, local)
}

func addrPort(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()), ap.IsValid()
}
