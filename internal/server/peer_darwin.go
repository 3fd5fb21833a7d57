package server

import (
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/kimbap-run/kimbap/runtime"
)

// PeersKnown says whether the kernel tells here who connected to a socket.
const PeersKnown = true

// unixPeer is who connected to a socket, as the kernel noted it then (LOCAL_PEERCRED).
func unixPeer(conn *net.UnixConn) runtime.Peer {
	raw, err := conn.SyscallConn()
	if err != nil {
		return runtime.Peer{}
	}
	var credentials *unix.Xucred
	if cerr := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); cerr != nil || err != nil {
		return runtime.Peer{}
	}
	uid := int(credentials.Uid)
	return runtime.Peer{Known: true, UID: uid, Owner: uid == os.Geteuid()}
}
