// Package rest is the backend of HTTP actions: it sends a request upstream with the stored
// credential added and returns the response as it arrives.
//
// A caller's own request goes out as it was written: method, target byte for byte, field
// values and their number, body and trailers as a stream. Removed are the hop-by-hop fields
// and the caller's credential for kimbap; the stored credential replaces the caller's own
// value. A request without a caller's form is the one that was built for the
// action and judged ([runtime.Built]). No field is added that nobody asked for.
//
// It refuses to send a credential to an authority it was not stored for, over cleartext, or
// with a placeholder anywhere in the head but in its own place.
//
// It follows no redirect, uses no proxy of the environment and changes no encoding. It
// repeats nothing that may have had its effect, except a built request whose service says
// that it may (retry.go). The response holds the credential in no form that package scrub,
// below, looks for. Package witness checks all this.
//
// The words for connections, and for what is known of them:
//
//	lines    all of the following, since the last [Backend.Redial]
//	door     dials, for callers of one trust
//	link     a connection that was dialled, as net/http uses it for HTTP/1.1
//	wire     a connection that the relay engine uses, for one exchange at a time
//	spot     what wires are shared by: an origin and a scheme
//	rack     the wires of one spot that no exchange is using
//	peer     a connection of HTTP/2, for many exchanges at a time
//	origin   what peers are shared by: an authority and a trust
//	pool     the peers, and what is known of each origin
//	attempt  a dial that several exchanges wait for
//	way      what the pool finds for a request: a peer, or HTTP/1.1, perhaps over a new link
//
// Start reading at [Backend.Execute].
package rest
