// Package classifier says which action an HTTP request is.
//
// It is a table of routes, compiled once and never changed: authority, method,
// then a trie of path segments, then what tells routes of one path apart (query,
// header, body, GraphQL operation, JSON-RPC method). The most specific route
// wins; two routes that could both win do not compile.
//
// It refuses what could be read in two ways and never repairs it: the raw
// target is split on "/" before anything is decoded, and a request that an
// upstream might take for a more specific action than the one found is an
// [Error], not a guess. It does no IO, keeps no state and decides nothing about
// permission: "no action" is an answer, and the caller denies on it.
//
// Start reading at [Compile] and [Table.Match].
package classifier
