//go:build !linux && !darwin

package server

import (
	"net"

	"github.com/kimbap-run/kimbap/runtime"
)

// PeersKnown says whether the kernel tells here who connected to a socket.
const PeersKnown = false

// unixPeer knows nobody here: a token must be shown.
func unixPeer(*net.UnixConn) runtime.Peer { return runtime.Peer{} }
