// Package identity says who a caller is, and makes, lists and revokes tokens.
//
// A caller is known by a token, or by being a process of the owner on this
// machine. Nobody is anonymous: what cannot be identified is refused with the
// exact reason. A token's value is never stored, only its SHA-256; a token
// never decides anything and can never be wider than the one who made it.
//
// Start reading at [Identity.Identify].
package identity
