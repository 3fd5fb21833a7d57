//go:build !linux && !darwin

package server

import (
	"net"

	"github.com/kimbap-run/kimbap/runtime"
)

// unixPeer knows nobody here: a token must be shown.
func unixPeer(*net.UnixConn) runtime.Peer { return runtime.Peer{} }
