// Package netns is a network with one way out: into the proxy. It has loopback
// and nothing else. A stub of the name system gives every name an address of
// its own in 198.18.0.0/15, which RFC 2544 keeps for tests; whoever connects to
// one of them, to port 80, 443 or a port that a service has, reaches a listener
// that knows by the address which host was meant. So programs that have never
// heard of a proxy are led into it, and nothing else finds a way.
//
// There are two sides. Inside, [Furnish] makes the network and what belongs to
// it, in a process that is in the new namespaces already, and hands the sockets
// out. Outside, [Receive] takes them as a [Room]. No query for a name and no
// connection leaves the machine by this package: it never dials and asks no
// other name server. When the outside ends, the inside has no network at all.
//
// Start reading at [Room], then [Furnish].
package netns
