// Package egress is the dial guard. Every connection that kimbap opens for a caller goes
// through [Guard.Dial], which judges the addresses a name resolves to and connects to exactly
// the address it has judged.
//
// It always refuses, whatever the configuration says:
//
//   - cloud metadata services,
//   - link-local, multicast and unspecified addresses,
//   - the special-purpose ranges of the IANA registries,
//   - kimbap's own listeners, under any address of this host.
//
// [CheckAllow] tells who wants to open nothing but one of the first three.
//
// It refuses loopback, private and carrier-grade NAT ranges unless the configuration opens
// them. An IPv6 address with an embedded IPv4 address is judged by both. It does not resolve
// spellings of addresses that only some resolvers understand, takes no proxy from the
// environment and never asks the C library's resolver.
//
// A network may demand a proxy on the way out. With [Options.Via] connections go through it,
// and the guard judges what it can without resolving (via.go).
//
// A [Live] replaces one guard with another while connections are open.
//
// Start reading at [Guard.Dial], then [Classify].
package egress
