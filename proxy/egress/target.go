package egress

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// target is an authority taken apart.
type target struct {
	host string     // lower case, no trailing dot; an address in its shortest form
	addr netip.Addr // valid when host is a literal address
	port uint16
}

// parseTarget refuses, as *Denied, hosts that different resolvers read
// differently. Anything else it cannot read is a plain error.
func parseTarget(authority string) (target, error) {
	host, portText, err := net.SplitHostPort(authority)
	if err != nil {
		return target{}, fmt.Errorf("authority %q is not host:port", authority)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return target{}, fmt.Errorf("authority %q has no port from 1 to 65535", authority)
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return target{}, &Denied{Host: host, Class: ClassLinkLocal}
		}
		return target{host: addr.String(), addr: addr, port: uint16(port)}, nil
	}
	if !validName(name) {
		return target{}, fmt.Errorf("authority %q has no valid host name", authority)
	}
	if numeric(name) || reverse(name) {
		return target{}, &Denied{Host: host, Class: ClassSpecial}
	}
	if metadataName(name) {
		return target{}, &Denied{Host: host, Class: ClassMetadata}
	}
	return target{host: name, port: uint16(port)}, nil
}

func validName(name string) bool {
	if len(name) == 0 || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// numeric reports whether a name ends in a number, as 127.1, 0177.0.0.1,
// 2130706433 and 0x7f000001 do: inet_aton reads those as addresses (WHATWG URL,
// "ends in a number").
func numeric(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(last, "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

// reverse reports whether a name belongs to the reverse tree, where no servers live.
func reverse(name string) bool {
	return strings.HasSuffix(name, ".in-addr.arpa") || strings.HasSuffix(name, ".ip6.arpa")
}

// metadataName reports whether a name is one under which a cloud serves
// credentials, wherever it resolves to.
func metadataName(name string) bool {
	switch name {
	case "metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal":
		return true
	}
	return false
}

// localName reports whether a name is this host by definition (RFC 6761
// section 6.3), so that no resolver is asked.
func localName(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// namesLoopback reports whether the authority itself, not a resolver, says loopback.
func (t target) namesLoopback() bool {
	return localName(t.host) || t.addr.IsValid() && t.addr.Unmap().IsLoopback()
}
