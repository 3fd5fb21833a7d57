//go:build linux || darwin

package server

import (
	"net"
	"os"

	"github.com/kimbap-run/kimbap/runtime"
)

// PeersKnown says whether the kernel tells here who connected to a socket.
const PeersKnown = true

// unixPeer is who connected to a socket, as the kernel noted it then.
func unixPeer(conn *net.UnixConn) runtime.Peer {
	raw, err := conn.SyscallConn()
	if err != nil {
		return runtime.Peer{}
	}
	var uid int
	if cerr := raw.Control(func(fd uintptr) { uid, err = peerUID(int(fd)) }); cerr != nil || err != nil {
		return runtime.Peer{}
	}
	return runtime.Peer{Known: true, UID: uid, Owner: uid == os.Geteuid()}
}
