package server

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime"
)

// PeersKnown says whether the kernel tells here who connected to a socket.
const PeersKnown = true

// unixPeer is who connected to a socket, as the kernel noted it then (SO_PEERCRED).
func unixPeer(conn *net.UnixConn) runtime.Peer {
	raw, err := conn.SyscallConn()
	if err != nil {
		return runtime.Peer{}
	}
	var credentials *unix.Ucred
	if cerr := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); cerr != nil || err != nil {
		return runtime.Peer{}
	}
	uid := int(credentials.Uid)
	return runtime.Peer{Known: true, UID: uid, Owner: uid == unix.Geteuid()}
}
