// Package egress is the dial guard: every connection that kimbap opens for a
// caller goes through [Guard.Dial], which decides about the addresses a name
// resolves to and connects to exactly the address it has judged.
//
// It refuses, whatever the configuration says: cloud metadata services,
// link-local, multicast and unspecified addresses, the special-purpose ranges of
// the IANA registries, and kimbap's own listeners under any address of this
// host. It refuses unless the configuration opens them: loopback, private and
// carrier-grade NAT ranges. An IPv6 address that carries an IPv4 address
// inside is judged by both. Spellings of addresses that only some resolvers
// understand are not resolved at all. It takes no proxy from the environment
// and never asks the C library's resolver.
//
// A network may demand a proxy on the way out. With [Options.Via] connections are
// opened through it, and the guard judges what it can without resolving: via.go.
//
// A [Live] exchanges one guard for another while connections are open.
//
// Start reading at [Guard.Dial], then [Classify].
package egress
