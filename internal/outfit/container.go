package outfit

import "net"

// Bridge is where containers reach a port of this machine: on the bridge of docker, or
// where it usually is.
func Bridge(port string) string {
	at := "172.17.0.1"
	if docker, err := net.InterfaceByName("docker0"); err == nil {
		if addrs, err := docker.Addrs(); err == nil && len(addrs) > 0 {
			if ip, _, err := net.ParseCIDR(addrs[0].String()); err == nil {
				at = ip.String()
			}
		}
	}
	return net.JoinHostPort(at, port)
}

// InsideContainer is an address of this machine as a container names it: its 127.0.0.1
// is the container.
func InsideContainer(address string) string {
	if _, port, err := net.SplitHostPort(address); err == nil {
		return net.JoinHostPort("host.docker.internal", port)
	}
	return address
}
