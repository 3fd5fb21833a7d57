package socket

import "net"

// privateSocket makes a socket; the folder it stands in keeps others out.
func privateSocket(path string) (net.Listener, error) { return net.Listen("unix", path) }
