package egress

import (
	"encoding/binary"
	"net/netip"
)

// Class says what kind of place an address is. The zero Class is refused.
type Class string

// The classes.
const (
	ClassPublic      Class = "public"
	ClassPrivate     Class = "private"     // RFC 1918, RFC 4193
	ClassCGNAT       Class = "cgnat"       // RFC 6598
	ClassLoopback    Class = "loopback"    // 127.0.0.0/8, ::1
	ClassLinkLocal   Class = "linklocal"   // 169.254.0.0/16, fe80::/10
	ClassMetadata    Class = "metadata"    // where clouds hand out credentials
	ClassSpecial     Class = "special"     // the rest of RFC 6890 and its registries
	ClassMulticast   Class = "multicast"   //
	ClassUnspecified Class = "unspecified" // 0.0.0.0, ::, which most systems connect to themselves
)

// severity orders classes, so that the worse of two decides.
func (c Class) severity() int {
	switch c {
	case ClassPublic:
		return 0
	case ClassPrivate:
		return 1
	case ClassCGNAT:
		return 2
	case ClassLoopback:
		return 3
	case ClassSpecial:
		return 4
	case ClassMulticast:
		return 5
	case ClassUnspecified:
		return 6
	case ClassLinkLocal:
		return 7
	case ClassMetadata:
		return 8
	}
	return 9
}

// openable reports whether a line of configuration can open the class at all.
// Special ranges are not among those: they hold the embeddings that nobody can
// list in full, and no service lives there.
func (c Class) openable() bool { return c.severity() <= ClassLoopback.severity() }

// closed reports whether no address of a range can be opened, and the class of most of it.
func closed(p netip.Prefix) (Class, bool) {
	if p.IsSingleIP() {
		class := Classify(p.Addr())
		return class, !class.openable()
	}
	spans, otherwise := v4Spans(), ClassPublic
	if p.Addr().Is6() {
		spans, otherwise = v6Spans(), ClassSpecial
	}
	for _, s := range spans {
		switch {
		case !s.prefix.Overlaps(p):
		case s.class.openable():
			return s.class, false
		case s.prefix.Bits() <= p.Bits(): // all that no span before it has
			return s.class, true
		}
	}
	return otherwise, !otherwise.openable()
}

func worse(a, b Class) Class {
	if b.severity() > a.severity() {
		return b
	}
	return a
}

// Classify returns the class of an address. An IPv6 address with an IPv4
// address inside (v4-mapped, v4-compatible, NAT64, 6to4, Teredo, ISATAP) gets
// the worse class of the two. It is pure.
func Classify(addr netip.Addr) Class {
	if !addr.IsValid() {
		return ClassSpecial
	}
	class := own(addr.WithZone("").Unmap())
	if addr.Zone() != "" {
		class = worse(class, ClassLinkLocal) // a zone has a meaning on this link only, RFC 4007
	}
	for _, inner := range embedded(addr.WithZone("")) {
		class = worse(class, own(inner))
	}
	return class
}

// span gives a class to a range. The first that contains an address decides.
type span struct {
	prefix netip.Prefix
	class  Class
}

func own(addr netip.Addr) Class {
	if addr.Is4() {
		return find(v4Spans(), addr, ClassPublic)
	}
	return find(v6Spans(), addr, ClassSpecial)
}

func find(spans []span, addr netip.Addr, otherwise Class) Class {
	for _, s := range spans {
		if s.prefix.Contains(addr) {
			return s.class
		}
	}
	return otherwise
}

// v4 makes a span without parsing, so that the table costs nothing at start.
func v4(a, b, c, d byte, bits int, class Class) span {
	return span{netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits), class}
}

// v4Spans is the IANA IPv4 special-purpose registry, the clouds' metadata
// addresses before it.
func v4Spans() []span {
	return []span{
		v4(169, 254, 169, 254, 32, ClassMetadata), // AWS, Azure, GCP, most others
		v4(169, 254, 170, 0, 23, ClassMetadata),   // AWS ECS tasks, EKS pod identity
		v4(168, 63, 129, 16, 32, ClassMetadata),   // Azure wire server
		v4(100, 100, 100, 200, 32, ClassMetadata), // Alibaba
		v4(192, 0, 0, 192, 32, ClassMetadata),     // Oracle
		v4(0, 0, 0, 0, 32, ClassUnspecified),
		v4(0, 0, 0, 0, 8, ClassSpecial), // "this network", RFC 791
		v4(10, 0, 0, 0, 8, ClassPrivate),
		v4(172, 16, 0, 0, 12, ClassPrivate),
		v4(192, 168, 0, 0, 16, ClassPrivate),
		v4(100, 64, 0, 0, 10, ClassCGNAT),
		v4(127, 0, 0, 0, 8, ClassLoopback),
		v4(169, 254, 0, 0, 16, ClassLinkLocal),
		v4(192, 0, 0, 0, 24, ClassSpecial),    // IETF protocol assignments
		v4(192, 0, 2, 0, 24, ClassSpecial),    // documentation
		v4(192, 88, 99, 0, 24, ClassSpecial),  // 6to4 relays, RFC 7526
		v4(198, 18, 0, 0, 15, ClassSpecial),   // benchmarking
		v4(198, 51, 100, 0, 24, ClassSpecial), // documentation
		v4(203, 0, 113, 0, 24, ClassSpecial),  // documentation
		v4(224, 0, 0, 0, 4, ClassMulticast),
		v4(240, 0, 0, 0, 4, ClassSpecial), // reserved, and the broadcast address
	}
}

// v6 makes a span from the first four and the last two groups of an address.
func v6(head [4]uint16, tail [2]uint16, bits int, class Class) span {
	var b [16]byte
	for i, group := range head {
		binary.BigEndian.PutUint16(b[2*i:], group)
	}
	binary.BigEndian.PutUint16(b[12:], tail[0])
	binary.BigEndian.PutUint16(b[14:], tail[1])
	return span{netip.PrefixFrom(netip.AddrFrom16(b), bits), class}
}

// v6Spans is the IANA IPv6 special-purpose registry. What is in no span is not
// global unicast space and counts as special.
func v6Spans() []span {
	return []span{
		v6([4]uint16{0xfd00, 0xec2}, [2]uint16{0, 0x254}, 128, ClassMetadata),      // AWS
		v6([4]uint16{0xfd00, 0xec2}, [2]uint16{0, 0x23}, 128, ClassMetadata),       // AWS EKS pod identity
		v6([4]uint16{0xfd20, 0xce}, [2]uint16{0, 0x254}, 128, ClassMetadata),       // GCP
		v6([4]uint16{0xfd00, 0xc1}, [2]uint16{0xa9fe, 0xa9fe}, 128, ClassMetadata), // Oracle
		v6([4]uint16{0xfd00, 0x42}, [2]uint16{0, 0x42}, 128, ClassMetadata),        // Scaleway
		v6([4]uint16{0xfd00, 0xa9fe, 0xa9fe}, [2]uint16{0, 1}, 128, ClassMetadata), // Akamai (Linode)
		v6([4]uint16{0xfd00, 0x100}, [2]uint16{0x100, 0x200}, 128, ClassMetadata),  // Alibaba
		v6([4]uint16{}, [2]uint16{}, 128, ClassUnspecified),
		v6([4]uint16{}, [2]uint16{0, 1}, 128, ClassLoopback),
		v6([4]uint16{0x64, 0xff9b}, [2]uint16{}, 96, ClassPublic), // NAT64: as good as what is inside
		v6([4]uint16{0xfe80}, [2]uint16{}, 10, ClassLinkLocal),
		v6([4]uint16{0xff00}, [2]uint16{}, 8, ClassMulticast),
		v6([4]uint16{0xfc00}, [2]uint16{}, 7, ClassPrivate),
		v6([4]uint16{0x2001}, [2]uint16{}, 23, ClassSpecial),        // IETF protocol assignments, Teredo among them
		v6([4]uint16{0x2001, 0xdb8}, [2]uint16{}, 32, ClassSpecial), // documentation
		v6([4]uint16{0x2002}, [2]uint16{}, 16, ClassSpecial),        // 6to4, RFC 7526
		v6([4]uint16{0x3fff}, [2]uint16{}, 20, ClassSpecial),        // documentation, RFC 9637
		v6([4]uint16{0x2000}, [2]uint16{}, 3, ClassPublic),
	}
}

// embedded returns the IPv4 addresses that an IPv6 address carries, in every
// reading that a router or relay could have of it.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	at := func(w, x, y, z int) netip.Addr { return netip.AddrFrom4([4]byte{b[w], b[x], b[y], b[z]}) }
	low := at(12, 13, 14, 15)
	var out []netip.Addr
	switch {
	case addr.Is4In6():
		return []netip.Addr{low}
	case b == [16]byte{} || b == [16]byte{15: 1}: // "::" and "::1" are themselves
		return nil
	case [12]byte(b[:12]) == [12]byte{}: // v4-compatible, RFC 4291 section 2.5.5.1
		return []netip.Addr{low}
	case [12]byte(b[:12]) == [12]byte{0, 0x64, 0xff, 0x9b}: // NAT64, RFC 6052
		return []netip.Addr{low}
	case [6]byte(b[:6]) == [6]byte{0, 0x64, 0xff, 0x9b, 0, 1}: // local NAT64, RFC 8215: the prefix length is the operator's
		for _, inner := range []netip.Addr{low, at(6, 7, 9, 10), at(7, 9, 10, 11), at(9, 10, 11, 12)} {
			if !inner.IsUnspecified() { // padding of another reading
				out = append(out, inner)
			}
		}
		return out
	case b[0] == 0x20 && b[1] == 0x02: // 6to4, RFC 3056
		out = append(out, at(2, 3, 4, 5))
	case [4]byte(b[:4]) == [4]byte{0x20, 0x01}: // Teredo, RFC 4380: server, and client with its bits turned
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		out = append(out, at(4, 5, 6, 7), client)
	}
	if marker := [4]byte(b[8:12]); marker == [4]byte{0, 0, 0x5e, 0xfe} || marker == [4]byte{2, 0, 0x5e, 0xfe} { // ISATAP, RFC 5214
		out = append(out, low)
	}
	return out
}
