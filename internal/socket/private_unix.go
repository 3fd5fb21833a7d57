//go:build unix

package socket

import (
	"errors"
	"net"
	"os"
)

// privateSocket makes a socket of mode 0600. Between its making and the change of
// its mode the folder keeps others out, or the peer's credentials do.
func privateSocket(path string) (net.Listener, error) {
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}
